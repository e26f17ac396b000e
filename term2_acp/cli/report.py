"""What ``term2 doctor`` shows: the health as a table for a person, or as JSON for a program.

Rules:

- Words, not symbols, and no escape sequences but the colours of a terminal: the text goes into logs and bug
  reports. What is not printable is written out.
- On a terminal lines are folded at its width, never cut. Elsewhere there is no width, and a line stays whole.
- JSON has the names of the fields of ``cli.health``, and ASCII alone.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from term2_acp.cli.health import (
    Health,
    Level,
    LocalServer,
    ModelHealth,
    ProviderHealth,
    ProvidersHealth,
    SandboxHealth,
    StoreHealth,
)
from term2_acp.cli.screen import Screen, drawing
from term2_acp.domain.classes import frozen

if TYPE_CHECKING:
    from rich.console import Console

EXIT_STATUS = {Level.OK: 0, Level.BROKEN: 1, Level.LESS: 2}
"""What ``Health.level`` is as an exit status."""

_VERDICTS = {
    Level.OK: "everything works",
    Level.LESS: "it works, with less than it could",
    Level.BROKEN: "it does not work here",
}
_WORDS = {
    Level.OK: "ok",
    Level.LESS: "less than it could",
    Level.BROKEN: "broken",
    Level.UNKNOWN: "not looked at",
}
_COLOURS = {Level.OK: "green", Level.LESS: "yellow", Level.BROKEN: "red", Level.UNKNOWN: "yellow"}

_GIB = 1024**3

Row = tuple[str, str]


@frozen
class Section:
    """One part as a person reads it: what is wrong, then rows of a name and what is there, then notes."""

    title: str
    level: Level
    problems: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def to_json(health: Health) -> str:
    """The health as one JSON object and a line end."""
    level = health.level
    shown = {"status": EXIT_STATUS[level], "level": level, **attrs.asdict(health)}
    return json.dumps(shown, indent=2) + "\n"


def to_text(health: Health, screen: Screen) -> str:
    """The health as a table."""
    level = health.level
    with drawing(screen) as drawn:
        drawn.console.print(f"term2 {health.machine.term2}: {_VERDICTS[level]}", style=_COLOURS[level])
        for section in _sections(health):
            _print(drawn.console, section)
    return drawn.text


def _print(console: "Console", section: Section) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console.print()
    heading = Text(section.title, style="bold")
    heading.append(f": {_WORDS[section.level]}", style=_COLOURS[section.level])
    console.print(heading)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, what in section.rows:
        table.add_row(Text(name), Text(what))
    for problem in section.problems:
        console.print(Padding(Text(problem, style=_COLOURS[section.level], overflow="fold"), (0, 0, 0, 2)))
    if section.rows:
        console.print(Padding(table, (0, 0, 0, 2)))
    for note in section.notes:
        console.print(Padding(Text(note, overflow="fold"), (0, 0, 0, 2)))


# -- the sections ----------------------------------------------------------------------------------


def _sections(health: Health) -> Iterator[Section]:
    yield _sandbox(health.sandbox)
    found = health.ripgrep
    rows = [("program", found.program), ("version", found.version)]
    yield Section("ripgrep", found.level, found.problems, _known(rows))
    settings = health.settings
    where = settings.file or "nowhere: there is no home directory"
    file = where if settings.found or settings.file is None else f"{where} (there is none, which is fine)"
    yield Section("settings", settings.level, settings.problems, (("file", file),))
    yield _providers(health.providers)
    yield _store(health.store)
    machine = health.machine
    user = "root" if machine.root else "an ordinary user"
    rows = [
        ("term2", machine.term2),
        ("Python", machine.python),
        ("system", f"{machine.system} {machine.machine}"),
        ("user", user),
    ]
    yield Section("machine", Level.OK, (), _known(rows))


def _sandbox(found: SandboxHealth) -> Section:
    made = " ".join(filter(None, (found.kind, found.version)))
    rows = _known([("made by", made or None), ("program", found.program)])
    return Section("sandbox", found.level, found.problems, (*rows, *_layers(found)), found.notes)


def _layers(found: SandboxHealth) -> Iterator[Row]:
    if found.layers:
        from term2_acp.sandbox import Layer  # where there is one, it can be imported

        labels = {layer.value: layer.label for layer in Layer}
        yield from ((labels[word], "held" if held else "NOT held") for word, held in found.layers.items())


def _providers(found: ProvidersHealth) -> Section:
    used = None if found.chosen is None else f"{found.chosen}, model {found.model}"
    rows = [("in use", used), *_model(found.about)]
    if found.local_servers is not None:
        rows.append(("on this machine", "; ".join(map(_server, found.local_servers)) or "no model server"))
    # A dozen more can be named; a person wants to see those that were set up.
    own = {each.name for each in found.known if each.configured or each.key in ("set", "not needed")}
    own.add(found.chosen or "")
    rows += [(each.name, _provider(each)) for each in found.known if each.name in own]
    others = ", ".join(each.name for each in found.known if each.name not in own)
    rows.append(("by name too", others or None))
    return Section("providers", found.level, found.problems, _known(rows))


def _model(about: ModelHealth | None) -> Iterator[tuple[str, str | None]]:
    if about is None:
        return
    key = f"with the key of {about.key_source}" if about.key_source is not None else "without a key"
    yield "asked", f"over {about.wire}, {key}"
    limits = [f"{about.context_tokens:,} tokens of context"] if about.context_tokens is not None else []
    if about.output_tokens is not None:
        limits.append(f"{about.output_tokens:,} of a reply")
    limits.append("sees images" if about.sees_images else "sees no images")
    limits.append("priced" if about.priced else "without a known price")
    yield "limits", "; ".join(limits)
    if about.answers is not None:
        yield "its server", "answers" if about.answers else "does not answer"


def _server(server: LocalServer) -> str:
    return f"{server.name} at {server.base_url} ({len(server.models)} models)"


def _provider(provider: ProviderHealth) -> str:
    words = [provider.type]
    if provider.configured and provider.base_url is not None:
        words.append(provider.base_url)
    words.append(", ".join(provider.models) or "the models of its server")
    if provider.key == "set":
        words.append(f"key set by {provider.key_source}")
    elif provider.key == "none":
        words.append("no key")
    if provider.problem is not None:
        words.append(provider.problem)
    return "; ".join(words)


def _store(found: StoreHealth) -> Section:
    if found.directory is None:
        return Section("store", found.level, found.problems, ())
    there = f"mode {found.mode}" if found.mode is not None else "will be made"
    database = found.database
    if database == "absent":
        database = "none yet"
    elif found.sessions is not None:
        database = f"{database}, {found.sessions} sessions"
    free = None if found.free_bytes is None else f"{found.free_bytes / _GIB:.1f} GiB"
    rows = [
        ("directory", f"{found.directory} ({there})"),
        ("database", database),
        ("free space", free),
        ("logs", found.logs),
    ]
    return Section("store", found.level, found.problems, _known(rows), found.notes)


def _known(rows: list[tuple[str, str | None]]) -> tuple[Row, ...]:
    return tuple((name, what) for name, what in rows if what is not None)
