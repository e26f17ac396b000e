"""One reply gathered from the events of a Chat Completions stream. Pure.

Theory of operation. Events go in one by one. Text and thoughts come out at once; tool calls are gathered
and come out, whole, with the terminal event. ``finish`` is what makes a reply: a stream that ends without
one, whatever else was in it, is broken, and ``[DONE]`` without one ends it no better.

Rules, each for servers that were seen to need it:

- ``length`` drops every call of the reply, for the last one is cut and nobody knows where. A refusal
  drops them too. ``stop`` with calls that parse means ``tool_calls``; ``tool_calls`` without any, or
  ``stop`` with one that does not parse, is a contradiction, and contradictions break the reply. Of several
  reasons the last counts, but none takes back a limit, a refusal or a failure.
- Thoughts are taken from ``reasoning_content``, ``reasoning``, typed parts of the content and
  ``reasoning_details``, the first that has words; from the text only as ``think`` says.
- The usage may stand in the event, in its choice (Moonshot) or in ``x_groq``, before the end, after it or in
  every event. The last one counts, but one of zeros does not count against numbers.
- An error may stand in the event, in its choice (OpenRouter) or in ``x_groq``, or be all of the event.
- An event that carries nothing is no sign of life, so that empty ones cannot keep a dead stream alive. Nor
  is a usage that was told before, or another reason to stop.
- A reply with nothing in it may be all that a server says of a request that was too long: of one that stopped
  at its length before the first word nothing else can be meant, and of one that just ended where the dialect
  knows.
- Half of a surrogate pair waits for the other half; what comes out is Unicode.
"""

from typing import Any

from term2_acp.providers.base import Delta, Finish, Finished, TextDelta, ThoughtDelta, UsageDelta
from term2_acp.providers.chat.calls import CallGatherer
from term2_acp.providers.chat.chunks import CallPiece, Choice, Chunk, Function, Said, decode, error_in
from term2_acp.providers.chat.dialects import PLAIN, Dialect
from term2_acp.providers.chat.ends import finish_of, stands
from term2_acp.providers.chat.opaque import Back, Field, Keeper
from term2_acp.providers.chat.think import ThinkGate
from term2_acp.providers.chat.usage import usage_of
from term2_acp.providers.text import TextPieces, well_formed
from term2_acp.providers.wire import Broken, NoRoom, ServerError
from term2_acp.providers.wire_values import NOT_STRICT, decode_loosely, value_of


class ChatReply:
    """Gathers one reply (``Reply``). ``finish`` is the reason as the server gave it, or None."""

    def __init__(self, dialect: Dialect = PLAIN) -> None:
        self.finish: str | None = None
        self.over = False
        self._native_finish = ""
        self._calls = CallGatherer()
        self._usage: UsageDelta | None = None
        self._said = False
        self._tells_cost = dialect.tells_cost
        self._silent_overflow = dialect.silent_overflow
        self._keeper = None if dialect.back is Back.NOTHING else Keeper(dialect.back)
        self._thoughts: list[str] | None = [] if self._keeper and self._keeper.wants_thoughts else None
        self._field: Field = "reasoning_content"
        self._gate = ThinkGate() if dialect.thinks_in_text else None
        self._refused = False
        self._text = TextPieces()

    @property
    def complete(self) -> bool:
        """See ``Reply``."""
        return self.finish is not None

    def feed(self, name: str, data: bytes) -> list[Delta] | Broken | ServerError | None:
        """See ``Reply``."""
        if len(data) < 16 and data.strip() == b"[DONE]":
            self.over = True
            return []
        try:
            chunk = decode(data)
        except NOT_STRICT:
            loose = decode_loosely(data, Chunk)
            if loose is None:
                return _unreadable(name, data)
            chunk = loose
        if chunk.error or name == "error":
            return ServerError(chunk.error or value_of(data))
        deltas: list[Delta] = []
        alive = False
        if chunk.choices is None:
            error = error_in(data)
            if error:
                return ServerError(error)
        for choice in chunk.choices or ():
            taken = self._take_choice(choice, deltas)
            if taken is True:
                alive = True
            elif taken is not False:
                return taken
        if chunk.x_groq is not None or chunk.timings is not None or chunk.usage is not None:
            groq = chunk.x_groq if isinstance(chunk.x_groq, dict) else {}
            if groq.get("error"):
                return ServerError(groq["error"])
            alive = self._take_usage(chunk.usage or groq.get("usage"), chunk.timings) or alive
        return deltas if alive else None

    def close(self) -> list[Delta] | Broken | NoRoom:
        """See ``Reply``."""
        if self.finish is None:
            return Broken("ended its answer in the middle")
        finish = finish_of(self.finish, self._native_finish)
        if isinstance(finish, Broken):
            return finish
        if finish is Finish.STOP and self._refused:
            finish = Finish.REFUSAL
        calls: list[Delta] = []
        kept = None
        if finish in {Finish.STOP, Finish.TOOL_CALLS}:
            gathered = self._calls.calls(must_parse=finish is Finish.STOP)
            if isinstance(gathered, Broken):
                return gathered
            if finish is Finish.TOOL_CALLS and not gathered:
                return Broken("announced tool calls and sent none")
            calls.extend(gathered)
            finish = Finish.TOOL_CALLS if calls else Finish.STOP
            if self._keeper is not None:
                kept = self._keeper.data(self._thoughts or (), self._field, self._calls.extras)
        usage = [] if self._usage is None else [self._usage]
        deltas = [*self._held_back(), *calls, *usage, Finished(finish, kept)]
        if self._said:
            return deltas
        # Thoughts that are not shown are counted: a reply that they took all of had room.
        cut = finish is Finish.LENGTH and (self._usage is None or self._usage.output_tokens <= 1)
        if cut or (finish is Finish.STOP and self._silent_overflow):
            return NoRoom(deltas, sure=cut)
        return deltas

    def _take_choice(self, choice: Choice, deltas: list[Delta]) -> bool | Broken | ServerError:
        """Take what one choice of an event holds; return whether it held anything."""
        if choice.index:
            return False  # a second answer, which nobody asked for
        if choice.error:
            return ServerError(choice.error)
        alive = False
        if choice.delta is not None:
            taken = self._take(choice.delta, deltas)
            if isinstance(taken, Broken):
                return taken
            alive = taken
            self._said = self._said or taken
        if choice.finish_reason:
            alive = alive or self.finish is None
            if self.finish is None or not stands(self.finish, self._native_finish):
                self.finish = choice.finish_reason
                if isinstance(choice.native_finish_reason, str):
                    self._native_finish = choice.native_finish_reason
        if choice.usage is not None:
            alive = self._take_usage(choice.usage) or alive
        return alive

    def _take(self, said: Said, deltas: list[Delta]) -> bool | Broken:
        alive = False
        if said.reasoning_content or said.reasoning or said.reasoning_details:
            alive = self._take_thought(said, deltas)
        content = said.content
        if isinstance(content, str):
            if content:
                alive = True
                self._say(content, deltas)
        elif isinstance(content, list):
            alive = self._take_parts(content, deltas) or alive
        if said.extra_content is not None and self._keeper is not None:
            self._keeper.beside(said.extra_content)
        if isinstance(said.refusal, str) and said.refusal:
            self._refused = alive = True
            self._say(said.refusal, deltas)
        if said.tool_calls or said.function_call is not None:
            return self._take_calls(said) or True
        return alive

    def _take_calls(self, said: Said) -> Broken | None:
        pieces = said.tool_calls or []
        if said.function_call is not None:
            pieces = [*pieces, CallPiece(0, None, said.function_call)]
        for piece in pieces:
            function = piece.function or Function()
            broken = self._calls.take(
                piece.index, piece.id, function.name, function.arguments, piece.extra_content
            )
            if broken is not None:
                return broken
        return None

    def _take_thought(self, said: Said, deltas: list[Delta]) -> bool:
        """Take thoughts that stand in a field of their own; return whether there were any."""
        if self._gate is not None:
            self._open_gate(deltas)  # who tells thoughts apart leaves none in the text
        text, details = said.reasoning_content, said.reasoning_details
        field: Field = "reasoning_content"
        if not isinstance(text, str) or not text:
            text, field = said.reasoning, "reasoning"
        if isinstance(details, list):
            if self._keeper is not None:
                self._keeper.details(details)
            text = text or _words(details)
        if not isinstance(text, str) or not text:
            return bool(details)
        if self._thoughts is not None:
            self._thoughts.append(text)
            self._field = field
        deltas.append(ThoughtDelta(text if text.isascii() else well_formed(text)))
        return True

    def _take_parts(self, parts: list[Any], deltas: list[Delta]) -> bool:
        """Take content that comes in typed parts (Mistral's way); return whether there was any."""
        alive = False
        for part in parts:
            if not isinstance(part, dict):
                continue
            thinking = part.get("thinking")
            if isinstance(thinking, list):
                thinking = _words(thinking)
            if thinking:
                alive = self._take_thought(Said(reasoning_content=thinking), deltas) or alive
            text = part.get("text")
            if isinstance(text, str) and text:
                alive = True
                self._say(text, deltas)
        return alive

    def _say(self, text: str, deltas: list[Delta]) -> None:
        """Add text, as Unicode."""
        text = self._text.take(text)
        if self._gate is not None:
            thought, text = self._gate.take(text)
            if thought:
                deltas.append(ThoughtDelta(thought))
            if self._gate.passed:
                self._gate = None
        if text:
            deltas.append(TextDelta(text))

    def _open_gate(self, deltas: list[Delta]) -> None:
        """Let through what the gate holds back: all that follows is text."""
        if self._gate is not None:
            thought, text = self._gate.rest()
            self._gate = None
            deltas.extend([ThoughtDelta(thought)] if thought else [])
            deltas.extend([TextDelta(text)] if text else [])

    def _held_back(self) -> list[Delta]:
        """What is still held back when the reply is over."""
        deltas: list[Delta] = []
        self._say(self._text.end(), deltas)
        self._open_gate(deltas)
        return deltas

    def _take_usage(self, value: Any, timings: Any = None) -> bool:
        """Take a usage, if it is one; return whether it tells anything new."""
        usage = usage_of(value, timings, tells_cost=self._tells_cost)
        if usage is None or usage == self._usage:
            return False
        if self._usage is not None and not (usage.input_tokens or usage.output_tokens):
            return False
        self._usage = usage
        return True


def _unreadable(name: str, data: bytes) -> Broken | ServerError:
    """What an event is that is none of a reply: an error in a form of its own, perhaps."""
    error = value_of(data) if name == "error" else error_in(data)
    return ServerError(error) if error else Broken("sent an event that cannot be read")


def _words(parts: list[Any]) -> str:
    """The words in parts of thoughts: texts and summaries."""
    words = (part.get("text") or part.get("summary") for part in parts if isinstance(part, dict))
    return "".join(word for word in words if isinstance(word, str))
