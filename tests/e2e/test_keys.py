"""A canary for keys: several are planted where keys come from, a model server gives them back in every way
that it can, commands look for them, and then everything that the process ever wrote is searched: each frame,
what stderr says at its most talkative, every file of its state read raw, what the model is told again, and
the environment of each child. Only the header that carries the key to its server, and the settings file, may
hold one. A key may come whole or in part, in base64, or with its letters written as JSON escapes."""

import base64
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import trio
from attrs import define, field

from tests.kit.daemon import Daemon
from tests.kit.forked import run, running
from tests.kit.home import Home
from tests.kit.model_server import (
    USAGE,
    Answer,
    Call,
    ModelServer,
    call_piece,
    calls,
    chunk,
    event,
    open_model_server,
    plays,
    says,
    status,
)
from tests.kit.processes import Process, descendants, noticed
from tests.kit.until import until
from tests.kit.wires import WIRES, Reply, speaks

# None looks like a key: what takes them out has to know them. No two share a window (below).
ASKED_WITH = "Kanarienvogel-7f3Qz9LmXw2Rt8VbNc4HsJd6"
IN_THE_FILE = "Zeisig-uY5eW1oPq0AxCv3BnM8kLj7GhFt2Sd9R"
OF_ANOTHER = "Stieglitz-4rTg6YhN1mKo9PlQ3sWd5XcE7vBu"
KEYS = (ASKED_WITH, IN_THE_FILE, OF_ANOTHER)

# Characters of a key in a row that must not be found either: half of one is as good as found.
WINDOW = 16

ENVIRONMENT = {
    "LAB_KEY": ASKED_WITH,
    "ANTHROPIC_API_KEY": OF_ANOTHER,  # of a provider that the settings do not name
    "TERM2_LOG_LEVEL": "debug",
}


def forms_of(key: str) -> Iterator[bytes]:
    """What must not be found: any window of the key as it is and in hexadecimals, and it all in base64."""
    for start in range(len(key) - WINDOW + 1):
        part = key[start : start + WINDOW].encode()
        yield part
        yield part.hex().encode()
    for start in range(3):  # the three ways in which base64 may fall on it; letters at its ends mix
        yield base64.b64encode(key[start:].encode())[4:-4]


FORMS = [form for key in KEYS for form in forms_of(key)]
# A JSON escape of a letter, in JSON inside of JSON perhaps.
ESCAPE = re.compile(rb"\\+u00([0-7][0-9a-fA-F])")


def found_in(data: bytes) -> list[bytes]:
    """The places in ``data`` where one of the keys can be read."""
    plain = ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), data)
    places = []
    for form in FORMS:
        at = plain.find(form)
        if at >= 0:
            places.append(plain[max(0, at - 100) : at + 100])
    return places


def escaped(key: str) -> str:
    """The key with some of its letters written as JSON escapes, as JSON text without quotes."""
    return "".join(f"\\u{ord(letter):04x}" if place % 2 else letter for place, letter in enumerate(key))


def home_with_keys(root: Path, server: ModelServer, wire: str = "openai-compatible") -> Home:
    home = Home.make(root, None)
    home.settings.write_text(
        f'provider = "lab"\nmodel = "m"\n[providers.lab]\ntype = "{wire}"\nbase_url = "{server.base_url}"\n'
        f'api_key_env = "LAB_KEY"\nmodels = ["m"]\n'
        f'[providers.other]\ntype = "openai-compatible"\nbase_url = "http://127.0.0.1:9/v1"\n'
        f'api_key = "{IN_THE_FILE}"\nmodels = ["n"]\n'
    )
    home.settings.chmod(0o600)
    return home


@define
class Watched:
    """A daemon, and every byte that it wrote to stdout."""

    daemon: Daemon
    home: Home
    written: bytearray = field(factory=bytearray)
    children: dict[int, tuple[str, bytes]] = field(factory=dict)

    def look_at_children(self, look: Callable[[int], Sequence[Process]] = descendants) -> None:
        """Note the command and the environment of each process below the daemon."""
        for process in look(self.daemon.process.pid):
            try:
                environ = Path(f"/proc/{process.pid}/environ").read_bytes()
            except OSError:  # it has ended, or is not ours to look at
                continue
            self.children[process.pid] = (process.command, environ)

    def check(self, server: ModelServer | None = None, *, workspace: bool = True) -> None:
        """Search all that it wrote. ``workspace``: the files there too, which the model may have written."""
        assert found_in(bytes(self.written)) == []
        assert found_in(self.daemon.stderr.encode()) == []
        for path in self.home.root.rglob("*"):
            inside = path.is_relative_to(self.home.workspace)
            if path.is_file() and path != self.home.settings and (workspace or not inside):
                assert (path.name, found_in(path.read_bytes())) == (path.name, [])
        for command, environ in self.children.values():
            assert (command, found_in(environ)) == (command, [])
        for call in server.calls if server is not None else ():
            assert found_in(call.body) == []
            assert found_in(call.path.encode()) == []


def watch(daemon: Daemon, home: Home) -> Watched:
    watched = Watched(daemon, home)
    daemon.tap = watched.written.extend
    return watched


# -- what the server gives back ------------------------------------------------------------------------------


LISTED = [{"id": "m", "name": ASKED_WITH, "description": ASKED_WITH}]


def serves(answers: Sequence[Answer], listed: Sequence[Mapping[str, str]] = LISTED) -> Answer:
    """The answers, one for each request of a model; asked what models there are, it tells a key as well."""
    rest = iter(answers)

    async def answer(call: Call) -> None:
        if call.method == "GET":
            await status(200, json.dumps({"object": "list", "data": listed, "key": ASKED_WITH}))(call)
        else:
            await next(rest)(call)

    return answer


def raw_calls(*made: tuple[str, str, str]) -> Answer:
    """Calls as (id, name, arguments as text)."""
    pieces = [
        call_piece(index, id=call_id, name=name, arguments=arguments)
        for index, (call_id, name, arguments) in enumerate(made)
    ]
    return plays(*(chunk(tool_calls=[piece]) for piece in pieces), chunk("tool_calls"), USAGE)


def split(text: str, size: int = 5) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


async def error_in_the_stream(call: Call) -> None:
    await call.head(headers={"x-echo": call.headers["authorization"]})
    await call.send(event(chunk(content="I begin. ")))
    message = f"the key {ASKED_WITH} is used up"
    await call.send(event({"error": {"message": message, "code": ASKED_WITH, "type": "server_error"}}))
    await call.end()


async def garbage(call: Call) -> None:
    await call.raw(f"HTTP/1.1 200 {ASKED_WITH}\r\nx-echo: {ASKED_WITH}\r\n\x00{ASKED_WITH}\r\n\r\n".encode())


async def breaks_off(call: Call) -> None:
    await call.head()
    await call.send(event(chunk(content=ASKED_WITH[:-3])))
    await call.reset()


def error(code: int, **headers: str) -> Answer:
    """The key in the message, its code and its type, in a header, and where a page would have its title."""
    message = f"Incorrect API key provided: {ASKED_WITH}. (Authorization: Bearer {ASKED_WITH})"
    value = {"message": message, "type": f"invalid {ASKED_WITH}", "code": ASKED_WITH, "param": ASKED_WITH}
    return status(code, json.dumps({"error": value}), {"x-echo": f"Bearer {ASKED_WITH}", **headers})


SAYING = plays(
    *(chunk(reasoning_content=piece) for piece in split(f"They use {ASKED_WITH}, and {IN_THE_FILE}.")),
    *(chunk(content=piece) for piece in split(f"You use {ASKED_WITH}; {OF_ANOTHER} too. {IN_THE_FILE}")),
    {**chunk(content=""), "id": ASKED_WITH, "model": ASKED_WITH, "system_fingerprint": ASKED_WITH},
    chunk("stop"),
    USAGE,
)
CALLING = raw_calls(
    (ASKED_WITH, "read_file", json.dumps({"path": f"{ASKED_WITH}.txt"})),
    ("a", ASKED_WITH, json.dumps({"x": ASKED_WITH})),
    ("b", "read_file", json.dumps({"path": f"/tmp/{IN_THE_FILE}/x", "start_line": ASKED_WITH})),
    ("c", "grep", json.dumps({"pattern": OF_ANOTHER, ASKED_WITH: 1})),
    ("d", "read_file", f'{{"path": "{ASKED_WITH}'),
    ("e", "glob", json.dumps({"pattern": f"**/{ASKED_WITH}*", "path": "."})),
    ("f", "update_plan", json.dumps({"entries": [{"content": f"Use {ASKED_WITH}"}]})),
)
CALLING_ESCAPED = raw_calls(
    ("a", "read_file", f'{{"path": "{escaped(ASKED_WITH)}"}}'),
    ("b", "read_file", f'{{"path": "x", "{escaped(IN_THE_FILE)}": 1}}'),
    ("c", "grep", f'{{"pattern": "{escaped(OF_ANOTHER)}"}}'),
    ("d", "no_such_tool", f'{{"x": ["{escaped(ASKED_WITH)}"]}}'),
    ("e", "read_file", f'{{"path": "{escaped(ASKED_WITH)}'),
    ("f", "update_plan", json.dumps({"entries": [{"content": "x"}]}).replace("x", escaped(ASKED_WITH))),
)

TURNS: Mapping[str, Sequence[Answer]] = {
    "says": [SAYING],
    "calls": [CALLING, says("Called.")],
    "escaped": [CALLING_ESCAPED, says("Called.")],
    "401": [error(401)],
    "400": [error(400)],
    "redirect": [error(307, Location=f"http://127.0.0.1:9/?key={ASKED_WITH}")],
    "waits": [error(429, **{"Retry-After": "3"}), says("There.")],
    "waits for long": [error(529, **{"Retry-After": "4000"})],
    "page": [status(502, f"<html><title>Bad {ASKED_WITH}</title></html>"), says("There.")],
    "line": [status(422, f"upstream refuses {ASKED_WITH}")],
    "no stream": [status(200, json.dumps({"error": {"message": ASKED_WITH}}))],
    "in the stream": [error_in_the_stream],
    "garbage": [garbage, says("There.")],
    "broken": [breaks_off],
    "again": [says("Still here.")],
}


async def test_whatever_a_server_gives_back(tmp_path):
    answers = [answer for turn in TURNS.values() for answer in turn]
    async with open_model_server(serves(answers)) as server:
        home = home_with_keys(tmp_path, server)
        async with running(home, environment=ENVIRONMENT) as daemon:
            watched = watch(daemon, home)
            await daemon.initialize()
            session = await daemon.new_session(home.workspace)
            daemon.on_ask = lambda ask: {"outcome": {"outcome": "selected", "optionId": "reject"}}
            for name in TURNS:
                turn = await daemon.prompt(session, f"{name} {ASKED_WITH}")
            assert turn.text == "Still here."
            assert len([call for call in server.calls if call.method == "POST"]) == len(answers)
            assert server.calls[0].headers["authorization"] == f"Bearer {ASKED_WITH}"
            watched.check(server)  # the journal as it is, with its log
            start = len(daemon.frames)
            await daemon.request("session/close", {"sessionId": session})
            params = {"sessionId": session, "cwd": str(home.workspace), "replayFrom": {"type": "start"}}
            await daemon.request("session/resume", params)
            assert len(daemon.frames) - start > 30
            await daemon.request("session/list", {})
        watched.check(server)
        assert "DEBUG" in daemon.stderr.upper()
        assert "[redacted]" in daemon.stderr


@pytest.mark.parametrize("wire", WIRES)
async def test_whatever_a_server_says_on_its_wire(tmp_path, wire):
    said = Reply(
        f"They use {ASKED_WITH}.",
        f"You use {IN_THE_FILE} and {ASKED_WITH}.",
        [("read_file", {"path": ASKED_WITH}), (ASKED_WITH, {ASKED_WITH: OF_ANOTHER})],
    )
    answers = (
        speaks(wire, said),
        speaks(wire, Reply("", "Done.")),
        error(401),
        speaks(wire, Reply("", "Yes.")),
    )
    async with open_model_server(serves(answers)) as server:
        home = home_with_keys(tmp_path, server, wire)
        async with running(home, environment=ENVIRONMENT) as daemon:
            watched = watch(daemon, home)
            await daemon.initialize()
            session = await daemon.new_session(home.workspace)
            texts = [(await daemon.prompt(session, "go")).text for _ in range(3)]
            assert texts[0].endswith("Done.")
            assert texts[2] == "Yes."
            assert any(ASKED_WITH in value for value in server.calls[0].headers.values())
            watched.check(server)
        watched.check(server)


async def test_whatever_a_server_lists(tmp_path):
    listed = [*LISTED, {"id": ASKED_WITH}, {"id": f"{ASKED_WITH}/x", "owned_by": ASKED_WITH}]
    async with open_model_server(serves([says("Yes.")], listed)) as server:
        home = home_with_keys(tmp_path, server)
        home.settings.write_text(home.settings.read_text().replace('models = ["m"]\n', ""))
        async with running(home, environment=ENVIRONMENT) as daemon:
            watched = watch(daemon, home)
            await daemon.initialize()
            session = await daemon.new_session(home.workspace)
            assert (await daemon.prompt(session, "go")).text == "Yes."
        watched.check(server)
        assert "GET" in {call.method for call in server.calls}


@pytest.mark.parametrize(
    "line", [["doctor"], ["acp", "--model", "nope"], ["acp", "--model", "n"], ["acp", "--provider", "nope"]]
)
async def test_what_is_told_without_a_client(tmp_path, line):
    async with open_model_server(serves([])) as server:
        home = home_with_keys(tmp_path, server)
        environment = home.environment(**ENVIRONMENT)
        ended = await trio.to_thread.run_sync(run, line, home.workspace, environment)
    assert len(ended.stdout + ended.stderr) > 0 or line[-1] == "n"
    assert found_in(ended.stdout + ended.stderr) == []


# -- what commands find, and what children are given ---------------------------------------------------------

LOOKING = """
env; set; export -p
cat /proc/self/environ /proc/*/environ /proc/*/cmdline
cat {settings}
grep -r . {state}
printf %s {first}; printf %s {then}; printf %s {last}; echo
echo {key} > kept.txt
cat kept.txt
touch begun
until [ -e go ]; do sleep 0.01; done
""".strip()


def sandboxed(home: Home) -> Sequence[Answer]:
    command = LOOKING.format(
        settings=home.settings,
        state=home.state,
        key=ASKED_WITH,
        first=ASKED_WITH[:13],
        then=ASKED_WITH[13:26],
        last=ASKED_WITH[26:],
    )
    code = (
        "import os\nprint(dict(os.environ))\nprint(open('/proc/self/environ').read())\n"
        "print(open('kept.txt').read())\nprint(tools.read_file(path='kept.txt'))\n"
        f"raise ValueError('{ASKED_WITH}')"
    )
    return [
        calls("shell", {"command": command}),
        calls("run_code", {"code": code}),
        calls("grep", {"pattern": "needle$", "path": "."}),
        says("Looked."),
    ]


async def test_what_commands_find_and_children_are_given(tmp_path):
    home = Home.make(tmp_path, None)
    async with open_model_server(serves(sandboxed(home))) as server:
        home_with_keys(tmp_path, server)
        # Large enough that whoever searches it is seen at it.
        (home.workspace / "large.txt").write_text(f"{'hay ' * 200}\n" * 100_000)
        async with running(home, environment=ENVIRONMENT) as daemon:
            watched = watch(daemon, home)
            await daemon.initialize()
            session = await daemon.new_session(home.workspace)
            turn = await daemon.begin(session, "look")
            await until((home.workspace / "begun").exists)
            watched.look_at_children()
            # A search is over in less time than it takes to look at every process of a machine.
            look_fast = noticed if noticed(daemon.process.pid) else descendants
            (home.workspace / "go").touch()
            with trio.move_on_after(30):
                async with trio.open_nursery() as nursery:

                    @nursery.start_soon
                    async def look() -> None:
                        while True:
                            watched.look_at_children(look_fast)
                            await trio.sleep(0.002)

                    assert await turn.ended() == "end_turn"
                    nursery.cancel_scope.cancel()
            assert turn.text == "Looked."
            assert [call["name"] for call in turn.calls.values()][:2] == ["shell", "run_code"]
            programs = " ".join(command for command, _ in watched.children.values())
            assert "sleep" in programs or "bwrap" in programs
            assert "rg " in programs
            watched.check(server, workspace=False)
        watched.check(server, workspace=False)
        assert ASKED_WITH in (home.workspace / "kept.txt").read_text()  # that is the person's


async def test_the_embedded_model_is_given_no_key(tmp_path):
    pytest.importorskip("xllamacpp")
    home = Home.make(tmp_path, None, 'provider = "local"')
    home.settings.write_text(
        'provider = "local"\n[providers.other]\ntype = "openai-compatible"\n'
        f'base_url = "http://127.0.0.1:9/v1"\napi_key = "{IN_THE_FILE}"\nmodels = ["n"]\n'
    )
    home.settings.chmod(0o600)
    async with running(home, environment=ENVIRONMENT) as daemon:
        watched = watch(daemon, home)
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        turn = await daemon.begin(session, f"My keys are {OF_ANOTHER} and {IN_THE_FILE}.")

        def is_there() -> bool:
            watched.look_at_children()
            return any("local.child" in command for command, _ in watched.children.values())

        await until(is_there, seconds=20)
        await daemon.cancel(session)
        assert await turn.ended() == "cancelled"
        watched.check()
    watched.check()


# -- the canary itself ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_the_search_finds_what_it_is_for(key: str) -> None:
    for text in (
        key,
        f"x{key[:-4]}",
        key[-WINDOW:],
        base64.b64encode(key.encode()).decode(),
        base64.b64encode(f"a{key}b".encode()).decode(),
        base64.b64encode(f"ab{key}".encode()).decode(),
        key.encode().hex(),
        escaped(key),
        json.dumps(escaped(key)),
        json.dumps(json.dumps(re.sub("[0-9a-f]{4}", lambda found: found[0].upper(), escaped(key)))),
        json.dumps({"data": base64.b64encode(f"$ echo {key}\n".encode()).decode()}),
    ):
        assert found_in(text.encode()), text
    assert not found_in(key[: WINDOW - 1].encode())


def test_no_test_looks_with_the_key_of_another() -> None:
    windows = [key[start : start + 6] for key in KEYS for start in range(len(key) - 5)]
    assert len(windows) == len(set(windows))
    assert not any(key in " ".join(sys.argv) for key in KEYS)
