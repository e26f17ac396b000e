"""Lines that no good client sends, each with the one error that it may cost, or with silence."""

from typing import Any

from attrs import field, frozen


@frozen
class Case:
    """A bad line, and the codes and id of the one error that it may cost."""

    line: bytes
    codes: tuple[int, ...]
    id: Any = None
    silent: bool = field(default=False, kw_only=True)


def case(line: str | bytes, *codes: int, id: Any = None) -> Case:  # noqa: A002 - the member is named so
    return Case(line if isinstance(line, bytes) else line.encode(), codes, id)


def silent(line: str | bytes) -> Case:
    return Case(line if isinstance(line, bytes) else line.encode(), (), silent=True)


def listing(request_id: int | str, params: str = "{}") -> str:
    return f'{{"jsonrpc":"2.0","id":{request_id},"method":"session/list","params":{params}}}'


PARSE, INVALID, UNKNOWN, PARAMS = -32700, -32600, -32601, -32602

CASES = {
    # not JSON, not UTF-8
    "half an object": case("{", PARSE),
    "words": case("hello", PARSE),
    "a header": case("Content-Length: 20", PARSE),
    "two objects": case(listing(901) + listing(902), PARSE),
    "NaN": case(listing(903, '{"cursor":NaN}'), PARSE),
    "Infinity": case(listing(904, '{"x":-Infinity}'), PARSE),
    "a number with a leading zero": case(listing("01"), PARSE),
    "a trailing comma": case(listing(905, '{"x":1,}'), PARSE),
    "a control character in a string": case(listing(906, '{"x":"\t"}'), PARSE),
    "bytes that are not UTF-8": case(b"\xff\xfe", PARSE),
    "a stray byte in a member that is known": case(
        listing(907, '{"cursor":"@"}').encode().replace(b"@", b"\xff"), PARSE, id=907
    ),
    "a stray byte in a member that is not": case(
        listing(908, '{"x":"@"}').encode().replace(b"@", b"\xff"), PARSE, id=908
    ),
    "a surrogate in bytes": case(
        listing(909, '{"x":"@"}').encode().replace(b"@", b"\xed\xa0\x80"), PARSE, id=909
    ),
    "a byte order mark": case(b"\xef\xbb\xbf" + listing(910).encode(), PARSE),
    "UTF-16": case(listing(911).encode("utf-16-le").replace(b"\n", b""), PARSE),
    # JSON, and no request
    "a number": case("17", INVALID),
    "a string": case('"x"', INVALID),
    "null": case("null", INVALID),
    "true": case("true", INVALID),
    "an empty object": case("{}", INVALID),
    "an empty array": case("[]", INVALID),
    "no jsonrpc": case('{"id":912,"method":"session/list"}', INVALID),
    "another jsonrpc": case('{"jsonrpc":"1.0","id":913,"method":"session/list"}', INVALID),
    "a method that is a number": case('{"jsonrpc":"2.0","id":914,"method":5}', INVALID),
    "id null": case(listing("null"), INVALID),
    "id 1.5": case(listing("1.5"), INVALID),
    "id true": case(listing("true"), INVALID),
    "id {}": case(listing("{}"), INVALID),
    "id []": case(listing("[]"), INVALID),
    "a member twice": case(listing(915, '{"cwd":"/a","cwd":"/b"}'), INVALID, id=915),
    "a member twice, deep in what is not known": case(
        listing(916, '{"x":[{"y":{"a":1,"a":2}}]}'), INVALID, id=916
    ),
    "a member twice, once escaped": case(listing(917, '{"x":{"a":1,"\\u0061":2}}'), INVALID, id=917),
    "two ids": case('{"jsonrpc":"2.0","id":918,"id":919,"method":"session/list"}', INVALID),
    "129 levels": case(listing(920, '{"x":' + "[" * 127 + "]" * 127 + "}"), INVALID, id=920),
    "100,000 levels": case("[" * 100_000 + "]" * 100_000, INVALID),
    "20,000 levels in what is not known": case(
        listing(921, '{"x":' + '{"a":' * 20_000 + "1" + "}" * 20_000 + "}"), INVALID, id=921
    ),
    "100,000 levels without an end": case("[" * 100_000, PARSE, INVALID),
    "params that are a number": case(listing(922, "5"), INVALID, PARAMS, id=922),
    "params that are an array": case(listing(923, "[]"), INVALID, PARAMS, id=923),
    # requests that cannot be done
    "an unknown method": case('{"jsonrpc":"2.0","id":924,"method":"session/levitate"}', UNKNOWN, id=924),
    "an extension": case('{"jsonrpc":"2.0","id":925,"method":"_x/y"}', UNKNOWN, id=925),
    "a method with another's case": case(
        '{"jsonrpc":"2.0","id":926,"method":"Session/List"}', UNKNOWN, id=926
    ),
    "the cancel notification with an id": case(
        '{"jsonrpc":"2.0","id":927,"method":"session/cancel","params":{"sessionId":"x"}}', UNKNOWN, id=927
    ),
    "a method of v1": case('{"jsonrpc":"2.0","id":928,"method":"session/load","params":{}}', UNKNOWN, id=928),
    "session/delete, which is not advertised": case(
        '{"jsonrpc":"2.0","id":929,"method":"session/delete","params":{"sessionId":"x"}}', UNKNOWN, id=929
    ),
    "session/set_config_option, which is not advertised": case(
        '{"jsonrpc":"2.0","id":930,"method":"session/set_config_option","params":{}}', UNKNOWN, id=930
    ),
    "auth/login, which is not advertised": case(
        '{"jsonrpc":"2.0","id":931,"method":"auth/login"}', UNKNOWN, id=931
    ),
    "initialize again": case(
        '{"jsonrpc":"2.0","id":932,"method":"initialize","params":{"protocolVersion":2}}', INVALID, id=932
    ),
    "session/new without params": case('{"jsonrpc":"2.0","id":933,"method":"session/new"}', PARAMS, id=933),
    "a cwd that is a number": case(
        '{"jsonrpc":"2.0","id":934,"method":"session/new","params":{"cwd":5}}', PARAMS, id=934
    ),
    "a relative cwd": case(
        '{"jsonrpc":"2.0","id":935,"method":"session/new","params":{"cwd":"w"}}', PARAMS, id=935
    ),
    "a cwd that is not there": case(
        '{"jsonrpc":"2.0","id":936,"method":"session/new","params":{"cwd":"/not/there"}}', PARAMS, id=936
    ),
    "a cwd that is a file": case(
        '{"jsonrpc":"2.0","id":937,"method":"session/new","params":{"cwd":"/etc/passwd"}}', PARAMS, id=937
    ),
    "a cwd with NUL": case(
        '{"jsonrpc":"2.0","id":938,"method":"session/new","params":{"cwd":"/tmp\\u0000"}}', PARAMS, id=938
    ),
    "servers that were not asked for": case(
        '{"jsonrpc":"2.0","id":939,"method":"session/new","params":'
        '{"cwd":"/","mcpServers":[{"type":"stdio","name":"x","command":"/x"}]}}',
        PARAMS,
        id=939,
    ),
    "more directories": case(
        '{"jsonrpc":"2.0","id":940,"method":"session/new","params":{"cwd":"/","additionalDirectories":["/usr"]}}',
        PARAMS,
        id=940,
    ),
    "a bad cursor": case(listing(941, '{"cursor":"nonsense"}'), PARAMS, id=941),
    "a prompt that is a string": case(
        '{"jsonrpc":"2.0","id":942,"method":"session/prompt","params":{"sessionId":"SESSION","prompt":"hi"}}',
        PARAMS,
        id=942,
    ),
    "an empty prompt": case(
        '{"jsonrpc":"2.0","id":943,"method":"session/prompt","params":{"sessionId":"SESSION","prompt":[]}}',
        PARAMS,
        id=943,
    ),
    "a blank prompt": case(
        '{"jsonrpc":"2.0","id":944,"method":"session/prompt","params":'
        '{"sessionId":"SESSION","prompt":[{"type":"text","text":" \\n\\u3000"}]}}',
        PARAMS,
        id=944,
    ),
    "a picture": case(
        '{"jsonrpc":"2.0","id":945,"method":"session/prompt","params":'
        '{"sessionId":"SESSION","prompt":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}}',
        PARAMS,
        id=945,
    ),
    "a block nobody knows": case(
        '{"jsonrpc":"2.0","id":946,"method":"session/prompt","params":'
        '{"sessionId":"SESSION","prompt":[{"type":"hologram"}]}}',
        PARAMS,
        id=946,
    ),
    "a prompt for nobody": case(
        '{"jsonrpc":"2.0","id":947,"method":"session/prompt","params":'
        '{"sessionId":"nobody","prompt":[{"type":"text","text":"hi"}]}}',
        -32002,
        id=947,
    ),
    "a resume of a path": case(
        '{"jsonrpc":"2.0","id":948,"method":"session/resume","params":{"sessionId":"../../etc/passwd","cwd":"/"}}',
        -32002,
        id=948,
    ),
    "a replay from the middle": case(
        '{"jsonrpc":"2.0","id":949,"method":"session/resume","params":'
        '{"sessionId":"SESSION","cwd":"WORKSPACE","replayFrom":{"type":"middle"}}}',
        PARAMS,
        id=949,
    ),
    "a resume in another workspace": case(
        '{"jsonrpc":"2.0","id":950,"method":"session/resume","params":{"sessionId":"SESSION","cwd":"/"}}',
        PARAMS,
        id=950,
    ),
    # what is never answered
    "a blank line": silent(""),
    "a line of blanks": silent(" \t \r"),
    "an unknown notification": silent('{"jsonrpc":"2.0","method":"$/whatever","params":{}}'),
    "a cancel for nobody": silent(
        '{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nope"}}'
    ),
    "a cancel without params": silent('{"jsonrpc":"2.0","method":"session/cancel"}'),
    "a cancel with nonsense": silent(
        '{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":[5]}}'
    ),
    "a cancel of a request nobody made": silent(
        '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"gone"}}'
    ),
    "a cancel of a request without its id": silent(
        '{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}'
    ),
    "a notification with a member twice": silent('{"jsonrpc":"2.0","method":"_x","params":{"a":1,"a":2}}'),
    "a request method without an id": silent(
        '{"jsonrpc":"2.0","method":"session/new","params":{"cwd":"WORKSPACE"}}'
    ),
    "an answer nobody asked for": silent('{"jsonrpc":"2.0","id":951,"result":{}}'),
    "an error nobody asked for": silent('{"jsonrpc":"2.0","id":952,"error":{"code":1,"message":"x"}}'),
    "an error with id null": silent('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}'),
    "an answer with both": silent('{"jsonrpc":"2.0","id":953,"result":1,"error":{"code":1,"message":"x"}}'),
    "an answer with a member twice": silent('{"jsonrpc":"2.0","id":954,"result":{"a":1,"a":2}}'),
    "a batch of notifications": silent('[{"jsonrpc":"2.0","method":"_x"},{"jsonrpc":"2.0","method":"_y"}]'),
    "a batch of answers": silent('[{"jsonrpc":"2.0","id":955,"result":{}}]'),
}
