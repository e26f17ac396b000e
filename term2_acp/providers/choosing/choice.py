"""What the settings turn out to mean, as values."""

from typing import NamedTuple

from attrs import field

from term2_acp.domain.classes import frozen
from term2_acp.domain.effort import Effort
from term2_acp.providers.servers.known import Known

# Named tuples, most of them: every start makes these classes, and each takes 0.5 ms less than one of attrs.


class Decided(NamedTuple):
    """The model of this process."""

    provider: Known
    model: str


class Undecided(NamedTuple):
    """The servers that are asked with a prompt; the first that has a model is taken, else ``otherwise``.

    ``any_model`` says what is done where a server has several: take the first suitable one, or refuse.
    ``nothing`` is what the person is told when there is none.
    """

    servers: tuple[Known, ...]
    otherwise: Known | None = None
    any_model: bool = False
    nothing: str = ""


class Nothing(NamedTuple):
    """No model can be used. ``message`` says what to set; every prompt ends with it."""

    message: str


Choice = Decided | Undecided | Nothing


@frozen(eq=False)
class Resolved:
    """What the settings mean. ``secrets`` are all keys that this process knows, for redaction."""

    choice: Choice
    warnings: tuple[str, ...] = ()
    effort: Effort = Effort.DEFAULT
    secrets: tuple[str, ...] = field(default=(), repr=False)


class Unresolved(NamedTuple):
    """The start is refused. ``message`` is one line for the person, with the candidates in it."""

    message: str
