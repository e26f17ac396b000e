"""THE GATE: every frame that term2 sends is held to the schemas that the official packages publish.

A published schema as a whole accepts every frame (its root is a union that ends in "anything else"), so
the gate never uses the root. It looks up what the frame is and validates that part by its own definition,
closed (see ``published`` and ``closed``): the params of a notification or a request by its method, a result
by the method of the request that it answers, an error by the error object. A frame has to satisfy all
packaged schemas of the negotiated version; an update that only the newest of them has, that one. To a client
of v1 nothing goes that it did not offer to take (``offered``).

A gate watches one connection from its first line, in both directions, because a result means nothing
without the request. It also holds the rules of JSON-RPC that need no schema: an answer answers exactly one
open request, a request of ours never reuses an open id, ``$/cancel_request`` names an open request, codes
stay out of reserved ranges, and lines are bounded.

Where the packages cannot be installed there is no gate: ``Gate.if_available`` returns one that checks the
JSON-RPC rules only, and the tests of the schemas skip by name.
"""

import json
from collections import Counter
from typing import Any, Literal, TypeGuard

from tests.kit import packages
from tests.kit.offered import NEWEST_ONLY, Offered
from tests.kit.published import PublishedSchema, published

# What term2 promises never to exceed; SDK 2.4.0 clients drop the connection at 32 MiB.
MAX_FRAME_BYTES = 8 * 1024 * 1024

_RESERVED_BY_JSONRPC = range(-32768, -31999)
_RESERVED_BY_ACP = range(-32899, -32799)
_DEFINED_CODES = frozenset({-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002, -32022})


def _refuse_constant(word: str) -> Any:
    raise AssertionError(f"a frame holds {word}, which is no JSON")


class Gate:
    """One connection under watch. ``received`` takes term2's lines, ``sent`` those of its client."""

    def __init__(self, schemas: dict[int, tuple[PublishedSchema, ...]] | None = None) -> None:
        """``schemas`` by protocol version; None checks what needs no schema."""
        self._schemas = schemas
        self.version = 2  # until the answer to initialize says otherwise
        self._offered = Offered()
        self._offers: dict[tuple[type, Any], Offered] = {}  # of each initialize, while it is open
        self._open: dict[tuple[type, Any], list[str]] = {}
        self._ours: dict[tuple[type, Any], str] = {}
        # An answer and a withdrawal may cross on their ways, so each request can be withdrawn once.
        self._withdrawable: set[tuple[type, Any]] = set()
        self.methods: Counter[str] = Counter()

    @classmethod
    def if_available(cls) -> "Gate":
        """A gate with all published schemas, or without any where they cannot be had."""
        try:
            return cls({version: published(version) for version in (1, 2)})
        except packages.Unavailable:
            return cls(None)

    def check_line(self, direction: Literal["c2a", "a2c"], line: bytes | str) -> None:
        """``sent`` for a line from the client to the agent, ``received`` for the other way."""
        (self.sent if direction == "c2a" else self.received)(line)

    # -- client to agent ---------------------------------------------------------------------------

    def sent(self, line: bytes | str) -> None:
        """Note what the client asks and answers. It may be nonsense: that is what some tests send."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, dict):
                self._note_sent(message)

    def opened(self, request_id: int | str, method: str) -> None:
        """Note a request that ``sent`` cannot see: a line so malformed that only its id is readable."""
        self._open.setdefault(_key(request_id), []).append(method)

    def _note_sent(self, message: dict[str, Any]) -> None:
        request_id = message.get("id")
        if "method" in message:
            if _is_id(request_id) and isinstance(message["method"], str):
                self.opened(request_id, message["method"])
                if message["method"] == "initialize":
                    self._offers[_key(request_id)] = Offered.from_params(message.get("params"))
        elif _is_id(request_id):
            self._ours.pop(_key(request_id), None)

    def unanswered(self) -> list[str]:
        """The methods of the requests that got no answer, sorted."""
        return sorted(method for methods in self._open.values() for method in methods)

    # -- agent to client ---------------------------------------------------------------------------

    def received(self, line: bytes | str) -> Any:
        """Hold one line of term2 to every rule and return its decoded value.

        Raises:
            AssertionError: with the JSON path of what is wrong.
        """
        raw = line.encode() if isinstance(line, str) else line
        assert len(raw) <= MAX_FRAME_BYTES, f"a frame of {len(raw)} bytes is longer than {MAX_FRAME_BYTES}"
        try:
            text = raw.decode("utf-8")
            value = json.loads(text, parse_constant=_refuse_constant)
        except ValueError as fault:
            raise AssertionError(f"not a JSON line: {fault}: {raw[:200]!r}") from None
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate raises here
        if isinstance(value, list):
            assert value, "an empty array is no answer"
            for message in value:
                assert isinstance(message, dict), f"an array holds {message!r}"
                assert "method" not in message, "an array of ours holds answers only"
                self._hold_message(message)
        else:
            assert isinstance(value, dict), f"a frame is {value!r}"
            self._hold_message(value)
        return value

    def _hold_message(self, message: dict[str, Any]) -> None:
        assert message.get("jsonrpc") == "2.0", f"$.jsonrpc is {message.get('jsonrpc')!r}"
        if "method" in message:
            self._hold_call(message)
        elif "error" in message:
            self._hold_error(message)
        else:
            self._hold_result(message)

    def _hold_call(self, message: dict[str, Any]) -> None:
        kind: Literal["Request", "Notification"] = "Request" if "id" in message else "Notification"
        unknown = message.keys() - {"jsonrpc", "id", "method", "params"}
        assert not unknown, f"$.{min(unknown)} is no member of a {kind.lower()}"
        method, params = message["method"], message.get("params")
        assert isinstance(method, str), f"$.method is {method!r}"
        self.methods[method] += 1
        if kind == "Request":
            assert _is_id(message["id"]), f"$.id is {message['id']!r}"
            assert _key(message["id"]) not in self._ours, f"$.id {message['id']!r} is still open"
            self._ours[_key(message["id"])] = method
            self._withdrawable.add(_key(message["id"]))
        if method == "$/cancel_request":
            named = params.get("requestId") if isinstance(params, dict) else None
            assert _is_id(named), f"$.params.requestId is {named!r}"
            assert _key(named) in self._withdrawable, f"$.params.requestId {named!r} names no open request"
            self._withdrawable.remove(_key(named))
        if self.version == 1:
            self._offered.hold_request(method)
            if method == "session/update":
                self._offered.hold_update(params)
        for schema in self._in_force(_update_of(params)):
            schema.params(method, kind, params)

    def _hold_error(self, message: dict[str, Any]) -> None:
        unknown = message.keys() - {"jsonrpc", "id", "error"}
        assert not unknown, f"$.{min(unknown)} is no member of an error response"
        assert "id" in message, "$.id is missing"
        if message["id"] is not None:
            self._settle(message["id"])
        error = message["error"]
        assert isinstance(error, dict), f"$.error is {error!r}"
        code, text = error.get("code"), error.get("message")
        assert type(code) is int, f"$.error.code is {code!r}"
        if code in _RESERVED_BY_JSONRPC or code in _RESERVED_BY_ACP:
            assert code in _DEFINED_CODES, f"$.error.code {code} is reserved and not defined"
        assert isinstance(text, str), f"$.error.message is {text!r}"
        assert text.strip(), "$.error.message is empty"
        assert len(text.splitlines()) == 1, f"$.error.message has more than one line: {text!r}"
        for schema in self._in_force():
            schema.error(error)

    def _hold_result(self, message: dict[str, Any]) -> None:
        unknown = message.keys() - {"jsonrpc", "id", "result"}
        assert not unknown, f"$.{min(unknown)} is no member of a response"
        assert "result" in message, f"neither method, result nor error: {message!r}"
        method = self._settle(message.get("id"))
        result = message["result"]
        if method == "initialize" and isinstance(result, dict):
            self.version = 1 if result.get("protocolVersion") == 1 else 2
            self._offered = self._offers.pop(_key(message["id"]), Offered())
        if self.version == 1:
            self._offered.hold_result(result)
        for schema in self._in_force():
            schema.result(method, result)

    def _settle(self, request_id: Any) -> str:
        """The method of the request with that id, which is open no more."""
        assert _is_id(request_id), f"$.id is {request_id!r}"
        methods = self._open.get(_key(request_id))
        assert methods, f"$.id {request_id!r} answers no open request"
        method = methods.pop(0)
        if not methods:
            del self._open[_key(request_id)]
        return method

    def _in_force(self, update: Any = None) -> tuple[PublishedSchema, ...]:
        schemas = self._schemas[self.version] if self._schemas is not None else ()
        # In v1, whoever offers to take an update is new enough to know it. In v2 nobody is asked.
        return schemas[-1:] if self.version == 1 and update in NEWEST_ONLY else schemas


def _update_of(params: Any) -> Any:
    update = params.get("update") if isinstance(params, dict) else None
    kind = update.get("sessionUpdate") if isinstance(update, dict) else None
    return kind if isinstance(kind, str) else None


def _is_id(value: Any) -> TypeGuard[int | str]:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _key(value: Any) -> tuple[type, Any]:
    # "1" and 1 are two ids.
    return type(value), value
