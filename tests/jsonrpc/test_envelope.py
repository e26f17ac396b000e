"""What a line is. Charter: every row of the framing rules with its right value: which lines are requests,
notifications, replies, faults with or without an id, or nothing; and no line of bytes, however hostile,
makes ``decode`` raise. The usual and the unusual way of writing a line give the same message."""

import json

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from term2_acp.jsonrpc.envelope import (
    MAX_BATCH,
    Batch,
    ErrorReply,
    Fault,
    Ignored,
    MalformedReply,
    Notification,
    Reply,
    Request,
    Result,
    decode,
)
from term2_acp.jsonrpc.errors import ErrorCode
from term2_acp.jsonrpc.framing import Overlong
from term2_acp.jsonrpc.outline import Outline

PARSE_ERROR, INVALID_REQUEST = ErrorCode.PARSE_ERROR, ErrorCode.INVALID_REQUEST


def raw(value: msgspec.Raw) -> bytes:
    return bytes(value)


def fault(line):
    """The code and the id of the fault that the line is."""
    message = decode(line)
    assert isinstance(message, Fault), message
    assert message.message
    assert "\n" not in message.message
    return message.code, message.id


# -- what is good ----------------------------------------------------------------------------------

FORMS = [
    pytest.param(lambda message: json.dumps(message, separators=(",", ":")).encode(), id="usual"),
    pytest.param(lambda message: json.dumps(message).encode(), id="spaced"),
    pytest.param(lambda message: json.dumps(dict(reversed(message.items()))).encode(), id="reversed"),
    pytest.param(
        lambda message: json.dumps(message, indent=1).replace("\n", "\t").encode() + b"\r", id="tabs"
    ),
    pytest.param(
        lambda message: json.dumps(message, separators=(",", "\t :")).encode(), id="before the colon"
    ),
    pytest.param(lambda message: json.dumps(message | {"_x": {"id": 9, "jsonrpc": 1}}).encode(), id="more"),
]


IDS = [0, -1, 7, 2**70, pytest.param(10**4299, id="4300 digits"), "", "1", "x-1", 'é\n"id":']


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("request_id", IDS)
def test_a_request(form, request_id):
    params = {"a": [1, {"b": 'é: " :'}], "params": {"params": 1}}

    message = decode(form({"jsonrpc": "2.0", "id": request_id, "method": "m/é", "params": params}))

    assert isinstance(message, Request)
    assert (type(message.id), message.id, message.method) == (type(request_id), request_id, "m/é")
    assert json.loads(raw(message.params)) == params


@pytest.mark.parametrize("form", FORMS)
def test_a_notification(form):
    message = decode(form({"jsonrpc": "2.0", "method": "m", "params": {"k": 1}}))

    assert isinstance(message, Notification)
    assert message.method == "m"
    assert json.loads(raw(message.params)) == {"k": 1}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("without", [{}, {"params": None}])
def test_missing_params_are_an_empty_object(form, without):
    request = decode(form({"jsonrpc": "2.0", "id": 1, "method": "m"} | without))
    notification = decode(form({"jsonrpc": "2.0", "method": "m"} | without))

    assert isinstance(request, Request)
    assert isinstance(notification, Notification)
    assert raw(request.params) == raw(notification.params) == b"{}"


@pytest.mark.parametrize("params", [[], [1], "bar", 1, True])
def test_params_of_any_kind_are_for_the_method_to_judge(params):
    message = decode(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}).encode())

    assert isinstance(message, Request)
    assert json.loads(raw(message.params)) == params


@pytest.mark.parametrize("form", FORMS)
def test_a_result(form):
    message = decode(form({"jsonrpc": "2.0", "id": 3, "result": {"outcome": {"x": "result"}}}))

    assert isinstance(message, Reply)
    assert message.id == 3
    assert isinstance(message.outcome, Result)
    assert json.loads(raw(message.outcome.value)) == {"outcome": {"x": "result"}}


@pytest.mark.parametrize("form", FORMS)
def test_a_null_result_is_a_result(form):
    message = decode(form({"jsonrpc": "2.0", "id": 3, "result": None}))

    assert isinstance(message, Reply)
    assert isinstance(message.outcome, Result)
    assert raw(message.outcome.value) == b"null"


@pytest.mark.parametrize("form", FORMS)
def test_an_error_reply(form):
    error = {"code": -32601, "message": "no such method", "data": [1]}

    assert decode(form({"jsonrpc": "2.0", "id": "a", "error": error})) == Reply(
        "a", ErrorReply(-32601, "no such method")
    )


def test_a_line_as_long_as_a_frame_gets_is_decoded():
    text = 'def f(x): return {"a": [x, 1]}  # ' * 100_000
    for separators in (None, (",", ":")):
        message = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"text": text}}
        request = decode(json.dumps(message, separators=separators).encode())

        assert isinstance(request, Request)
        assert json.loads(raw(request.params)) == {"text": text}


def test_a_method_and_a_result_is_a_request():
    assert isinstance(decode(b'{"jsonrpc":"2.0","id":1,"method":"m","result":{}}'), Request)
    assert isinstance(decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{},"result":{}}'), Request)
    assert isinstance(decode(b'{"jsonrpc":"2.0","method":"m","error":{}}'), Notification)


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"{oops",
        b"{",
        b"nul",
        b"NaN",
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":01}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m"}{"jsonrpc":"2.0","id":2,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m"} 1',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\x00"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\\x"}}',
        b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]',
        b'[{"jsonrpc":"2.0","id":1,"method":"m"}',
        b"\xff\xfe",
        b"\x00",
        '{"a":1}'.encode("utf-16"),
        b'{"x":\xff}',
    ],
)
def test_what_is_no_json_is_a_parse_error_without_an_id(line):
    assert fault(line) == (PARSE_ERROR, None)


@pytest.mark.parametrize("line", [b"1", b"true", b"null", b'"x"', b"1.5", b"[]", b"{}", b'{"foo":"boo"}'])
def test_what_is_no_message_is_an_invalid_request(line):
    assert fault(line) == (INVALID_REQUEST, None)


NINES = pytest.param("9" * 4301, id="4301 nines")


@pytest.mark.parametrize("text", ["null", "true", "false", "1.5", "1.0", "1e3", "{}", "[]", NINES, "1e400"])
def test_an_id_is_an_integer_or_a_string(text):
    assert fault(b'{"jsonrpc":"2.0","id":%s,"method":"m"}' % text.encode()) == (INVALID_REQUEST, None)
    assert fault(b'{"method":"m", "jsonrpc":"2.0", "id":%s}' % text.encode()) == (INVALID_REQUEST, None)


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"id":1,"method":"m"}', None),
        (b'{"jsonrpc":"1.0","id":1,"method":"m"}', None),
        (b'{"jsonrpc":2.0,"id":1,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":1}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', None),
        (b'{"jsonrpc":"2.0","id":1}', None),
        (b'{"jsonrpc":"2.0","method":1,"params":"bar"}', None),
        (b'{"jsonrpc":"2.0"}', None),
    ],
)
def test_a_request_that_is_not_quite_one(line, request_id):
    assert fault(line) == (INVALID_REQUEST, request_id)


DEEP = b"[" * 128 + b"]" * 128
FAULTY_PARAMS = [
    pytest.param(b'{"a":1,"a":2}', INVALID_REQUEST, id="repeated"),
    pytest.param(b'{"a":1,"a":1}', INVALID_REQUEST, id="repeated and equal"),
    pytest.param(b'{"a" :1,"a":2}', INVALID_REQUEST, id="repeated, a space"),
    pytest.param(b'{"a"\t:1,"a"\r:2}', INVALID_REQUEST, id="repeated, other white space"),
    pytest.param(b'{"a":1,"\\u0061":2}', INVALID_REQUEST, id="repeated, escaped"),
    pytest.param(b'{"x":"\\":","a":1,"a":":\\""}', INVALID_REQUEST, id="repeated among colons"),
    pytest.param(b'{"x":["\\":",{"y":{"":1,"":2}}]}', INVALID_REQUEST, id="repeated inside"),
    pytest.param(DEEP, INVALID_REQUEST, id="deep"),
    pytest.param(b"[" * 500 + b"]" * 500, INVALID_REQUEST, id="deeper"),
    pytest.param(b"[" * 100_000 + b"]" * 100_000, INVALID_REQUEST, id="deepest"),
    pytest.param(b'{"a":' * 200 + b"1" + b"}" * 200, INVALID_REQUEST, id="deep objects"),
    pytest.param(b'{"a":1e400}', INVALID_REQUEST, id="huge float"),
    pytest.param(b'{"a":%s}' % (b"9" * 4301), INVALID_REQUEST, id="huge integer"),
    pytest.param(b'{"a":"\\ud800"}', INVALID_REQUEST, id="half a pair"),
    pytest.param(b'{"a":"\\udc00\\ud800"}', INVALID_REQUEST, id="a pair reversed"),
    pytest.param(b'{"a":"\xff"}', PARSE_ERROR, id="not utf-8"),
    pytest.param(b'{"\xff":1}', PARSE_ERROR, id="a name not utf-8"),
    pytest.param(b'{"a":"\xed\xa0\x80"}', PARSE_ERROR, id="a surrogate in utf-8"),
]


@pytest.mark.parametrize("member", [b"params", b"_unknown"])
@pytest.mark.parametrize(("params", "code"), FAULTY_PARAMS)
def test_a_fault_anywhere_in_a_request_is_answered_with_its_id(params, code, member):
    assert fault(b'{"jsonrpc":"2.0","id":"r","method":"m","%s":%s}' % (member, params)) == (code, "r")
    assert fault(b'{"%s": %s, "method": "m", "id": 5, "jsonrpc": "2.0"}' % (member, params)) == (code, 5)


@pytest.mark.parametrize(("params", "code"), FAULTY_PARAMS)
def test_the_same_fault_in_a_notification_is_never_answered(params, code):
    assert isinstance(decode(b'{"jsonrpc":"2.0","method":"m","params":%s}' % params), Ignored)


@pytest.mark.parametrize(("params", "code"), FAULTY_PARAMS)
def test_the_same_fault_in_a_reply_settles_the_call(params, code):
    message = decode(b'{"jsonrpc":"2.0","id":4,"result":%s}' % params)

    assert isinstance(message, Reply)
    assert message.id == 4
    assert isinstance(message.outcome, MalformedReply)


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}', 1),
        (b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}', 1),
        (b'{"jsonrpc":"2.0","jsonrpc":"1.0","id":1,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}', 1),
    ],
)
def test_repeated_members_of_the_message_itself(line, request_id):
    assert fault(line) == (INVALID_REQUEST, request_id)


def test_128_levels_are_not_too_deep():
    params = b"[" * 127 + b"]" * 127
    for line in (
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":%s}' % params,
        b'{"jsonrpc": "2.0","id":1,"method":"m","params":%s}' % params,
        b'[{"jsonrpc":"2.0","id":1,"method":"m","params":%s}]' % params[1:-1],
    ):
        assert isinstance(decode(line), Request | Batch)
    assert fault(b'[{"jsonrpc":"2.0","id":1,"method":"m","params":%s}]' % params) == (INVALID_REQUEST, None)


def test_many_braces_are_not_deep_and_not_many_values():
    params = json.dumps({"text": '{"a": [1, 2]},' * 200_000, "list": [{"k": [i]} for i in range(300)]})

    assert isinstance(decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":%s}' % params.encode()), Request)


@pytest.mark.parametrize("unit", [b"[],", b"{},", b"1,", b'"",', b'{"a":1},'])
def test_a_line_of_nothing_but_values_is_refused_before_it_is_decoded(unit):
    values = b"[" + unit * 1_000_001 + b"1]"

    assert fault(b'{"jsonrpc":"2.0","id":1,"method":"m","params":%s}' % values)[0] == INVALID_REQUEST


def test_a_line_that_was_too_long():
    assert fault(Overlong(Outline(version=True, method=True, ids=[5]))) == (INVALID_REQUEST, 5)
    assert fault(Overlong(Outline(method=True, ids=[5]))) == (INVALID_REQUEST, None)
    assert fault(Overlong(Outline())) == (INVALID_REQUEST, None)
    assert isinstance(decode(Overlong(Outline(version=True, method=True))), Ignored)
    reply = decode(Overlong(Outline(version=True, answers=True, ids=[5])))
    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, MalformedReply)


# -- what is never answered ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b'{"method":"m"}',
        b'{"jsonrpc":"1.0","method":"m","params":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
        b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","id":1.5,"result":{}}',
        b'{"jsonrpc":"2.0","id":{},"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"id":1,"result":{}}',
        b'{"result":1}',
    ],
)
def test_malformed_notifications_and_replies_to_nobody(line):
    assert isinstance(decode(line), Ignored)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":1,"error":null}',
        b'{"jsonrpc":"2.0","id":1,"error":"no"}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1.0,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}',
        b'{"id":1,"result":{}}',
        b'{"jsonrpc":"1.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"outcome":{"a":1,"a":1}}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"result":{}}',
    ],
)
def test_malformed_replies(line):
    message = decode(line)

    assert isinstance(message, Reply)
    assert message.id == 1
    assert isinstance(message.outcome, MalformedReply)


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        (b'{"jsonrpc":"2.0","id":1}', 1),
        (b'{"jsonrpc":"2.0","id":1,"result":{oops}}', 1),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff}}', None),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":1}} x', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{oops}}', None),
        (b"{oops", None),
    ],
)
def test_a_fault_says_which_call_it_may_have_meant_to_answer(line, answers):
    message = decode(line)

    assert isinstance(message, Fault)
    assert message.id is None
    assert message.answers == answers


# -- batches ---------------------------------------------------------------------------------------


def test_a_batch_is_judged_entry_by_entry():
    line = (
        b'[{"jsonrpc":"2.0","id":1,"method":"a"}, 17, {"jsonrpc":"2.0","method":"n"},\t[], {"x":1},'
        b'{"jsonrpc":"2.0","id":2,"method":"b","params":{"k":1,"k":1}}, [{"jsonrpc":"2.0","id":3}],'
        b'{"jsonrpc":"2.0","id":7,"result":{}}, {"jsonrpc":"2.0","id":null,"method":"d"}]'
    )

    batch = decode(line)

    assert isinstance(batch, Batch)
    assert [type(entry) for entry in batch.entries] == [
        Request, Fault, Notification, Fault, Fault, Fault, Fault, Reply, Fault,
    ]  # fmt: skip
    faults = [entry for entry in batch.entries if isinstance(entry, Fault)]
    assert [entry.code for entry in faults] == [INVALID_REQUEST] * 6
    assert [entry.id for entry in faults] == [None, None, None, 2, None, None]


def test_a_batch_that_cannot_be_read_is_one_fault():
    assert fault(b'[{"jsonrpc":"2.0","id":1,"method":"a"},') == (PARSE_ERROR, None)
    assert fault(b'[{"jsonrpc":"2.0","id":1,"method":"a","params":["\xff"]}]') == (PARSE_ERROR, None)
    assert fault(b"[" + b"1," * MAX_BATCH + b"1]") == (INVALID_REQUEST, None)
    assert isinstance(decode(b"[" + b"1," * (MAX_BATCH - 1) + b"1]"), Batch)


# -- never raises ----------------------------------------------------------------------------------

MESSAGES = Request | Notification | Reply | Fault | Ignored | Batch


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
@example(b'{"jsonrpc":"2.0","')
def test_no_bytes_make_it_raise(line):
    assert isinstance(decode(line), MESSAGES)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"])


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, VALUES | st.just("2.0"), max_size=7), st.booleans(), st.data())
def test_no_object_makes_it_raise_even_with_bytes_changed(message, compact, data):
    line = bytearray(json.dumps(message, separators=(",", ":") if compact else None).encode())
    for _ in range(data.draw(st.integers(0, 3))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))

    assert isinstance(decode(bytes(line)), MESSAGES)


@settings(max_examples=60, deadline=None)
@given(params=VALUES, request_id=st.integers() | st.text(), form=st.sampled_from(range(len(FORMS))))
def test_every_way_to_write_a_request_gives_the_same_one(params, request_id, form):
    line = FORMS[form].values[0]({"jsonrpc": "2.0", "id": request_id, "method": "m", "params": params})

    message = decode(line)

    assert isinstance(message, Request)
    assert message.id == request_id
    assert json.loads(raw(message.params)) == ({} if params is None else params)
