"""What of term2 works on this machine, as values. ``cli.checks`` finds them, ``cli.doctor`` shows them.

Rules:

- ``BROKEN``: a start is refused, or conversations cannot be kept. ``LESS``: term2 starts, and something that
  it could do fails, or is open to other users. ``UNKNOWN``: the result of another check forbids looking.
- A value holds no key, only whether there is one. What is shown is redacted all the same (``redacted``).
- The names of the fields are those of ``term2 doctor --json``, and stay as they are.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import attrs

from term2_acp.domain.classes import frozen

T = TypeVar("T")


class Level(StrEnum):
    """How well a part works; see the module."""

    OK = "ok"
    LESS = "less"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@frozen
class SandboxHealth:
    """What commands run in. ``layers`` says of each layer's word whether it is held; empty without one."""

    level: Level
    problems: tuple[str, ...] = ()
    kind: str | None = None
    program: str | None = None
    version: str | None = None
    layers: Mapping[str, bool] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()


@frozen
class RipgrepHealth:
    """The program that searches."""

    level: Level
    problems: tuple[str, ...] = ()
    program: str | None = None
    version: str | None = None


@frozen
class SettingsHealth:
    """The settings file: where it is or would be (None: nowhere), and whether one was found there."""

    level: Level
    problems: tuple[str, ...] = ()
    file: str | None = None
    found: bool = False


@frozen
class ProviderHealth:
    """One provider that can be named. ``models`` are those of the settings, else the default one; the first
    is taken where none is named. Empty where its server has to say.

    ``key`` is "set", "missing", "none" (it takes one, and none is named) or "not needed"; None where that was
    not looked at. ``key_source`` is what the key comes from or would. ``problem`` is what a prompt to it
    would end with.
    """

    name: str
    type: str
    configured: bool
    models: tuple[str, ...] = ()
    base_url: str | None = None
    key: str | None = None
    key_source: str | None = None
    problem: str | None = None


@frozen
class LocalServer:
    """A model server on one of this machine's usual ports, and the models that can be talked to."""

    name: str
    base_url: str
    models: tuple[str, ...]


@frozen
class ModelHealth:
    """What is known of the model of a start without flags.

    ``wire`` is how its server is spoken to. Tokens are those of the longest request and the longest reply.
    ``answers`` is whether its server did; None where it was not asked.
    """

    wire: str | None = None
    key_source: str | None = None
    context_tokens: int | None = None
    output_tokens: int | None = None
    sees_images: bool | None = None
    priced: bool | None = None
    answers: bool | None = None


@frozen
class ProvidersHealth:
    """Whom prompts go to: the provider and model of a start without flags, and all that can be named.

    ``local_servers`` were found on this machine; None where nobody looked.
    """

    level: Level
    problems: tuple[str, ...] = ()
    chosen: str | None = None
    model: str | None = None
    known: tuple[ProviderHealth, ...] = ()
    about: ModelHealth | None = None
    local_servers: tuple[LocalServer, ...] | None = None


@frozen
class StoreHealth:
    """Where conversations are kept.

    ``mode`` is the directory's, in octal; None while it does not exist. ``database`` is "absent", "sound",
    "unchecked" or "broken"; None where it was not looked at. ``free_bytes`` is what this user may still
    write.
    """

    level: Level
    problems: tuple[str, ...] = ()
    directory: str | None = None
    mode: str | None = None
    database: str | None = None
    sessions: int | None = None
    free_bytes: int | None = None
    logs: str | None = None
    notes: tuple[str, ...] = ()


@frozen
class Machine:
    """What term2 runs on. ``root`` says whether this user is root."""

    term2: str
    python: str
    system: str
    machine: str
    root: bool


@frozen
class Health:
    """All of it."""

    sandbox: SandboxHealth
    ripgrep: RipgrepHealth
    settings: SettingsHealth
    providers: ProvidersHealth
    store: StoreHealth
    machine: Machine

    @property
    def level(self) -> Level:
        """The worst of the parts."""
        parts = (self.sandbox, self.ripgrep, self.settings, self.providers, self.store)
        levels = {part.level for part in parts}
        return next((level for level in (Level.BROKEN, Level.LESS) if level in levels), Level.OK)


def redacted(value: T, clean: Callable[[str], str]) -> T:
    """The same value with every text in it cleaned. Words of an enumeration are ours and stay."""
    cleaned: Any = value
    match value:
        case StrEnum():
            pass
        case str():
            cleaned = clean(value)
        case tuple():
            cleaned = tuple(redacted(each, clean) for each in value)
        case Mapping():
            cleaned = {key: redacted(each, clean) for key, each in value.items()}
        case _ if attrs.has(type(value)):
            names = [field.name for field in attrs.fields(type(value))]  # type: ignore[arg-type]
            cleaned = type(value)(**{name: redacted(getattr(value, name), clean) for name in names})
    result: T = cleaned
    return result
