"""The output of a program on its three ways, with a program that is a list of pieces: what the terminal,
the model and the artifact get is exact; what is slow slows the program down; a cancel at any step loses
nothing. The autojump clock stands where no thread is at work, which it would not wait for."""

import errno
import itertools
import os
import threading
import tracemalloc
from collections import deque

import attrs
import pytest
import trio

from term2_acp.domain.content import Terminal
from term2_acp.domain.events import ExitStatus, TerminalOutput, TerminalUpdate
from term2_acp.domain.ids import TerminalId, ToolCallId
from term2_acp.redact import Redactor
from term2_acp.session.replay import Replay
from term2_acp.store.artifacts import Artifact, Artifacts
from term2_acp.tools import live as module
from term2_acp.tools.base import ToolContext
from term2_acp.tools.live import LIVE_BYTES, MODEL_HEAD_BYTES, MODEL_TAIL_BYTES, SHOW_BYTES, LiveOutput
from term2_acp.workspace import Workspace
from tests.kit.until import until

MODEL_BYTES = MODEL_HEAD_BYTES + MODEL_TAIL_BYTES
DONE = ExitStatus(0)
KEY = "sk-a-key-that-nobody-may-see"


class Stage:
    """A call with a terminal to look at. ``events`` is what was shown; ``publish`` may be made slow."""

    def __init__(self, root, secrets=()):
        self.events = []
        self.tool_call_id = ToolCallId("call_1")
        self.folder = root / "artifacts"
        self.slow = None
        self.context = ToolContext(
            files=Workspace(str(root), home=None),
            publish=self._publish,
            sandbox=None,
            artifacts=Artifacts(str(self.folder)),
            fetcher=None,
            redactor=Redactor(secrets),
            ports=self,
        )
        self.live = LiveOutput(self.context, command="make", cwd="/w")

    def show_nowait(self, events):
        self.events += events

    async def _publish(self, event):
        await trio.lowlevel.checkpoint()
        if self.slow is not None:
            await self.slow.wait()
        self.events.append(event)

    async def play(self, *pieces, status=DONE):
        """A whole life of the output."""
        await self.live.begin()
        await self.live.follow(source(pieces))
        self.live.end_nowait(status)
        await self.live.finish()

    @property
    def pieces(self):
        return [event.data for event in self.events if isinstance(event, TerminalOutput)]

    @property
    def screen(self):
        """What the terminal shows in the end."""
        shown = b""
        for event in self.events:
            if isinstance(event, TerminalOutput):
                shown += event.data
            elif event.output is not None:
                shown = event.output
        return shown

    @property
    def artifact(self):
        return (self.folder / "call_1.txt").read_bytes()


def source(pieces):
    """What a program writes: bytes come at once, a number is a wait of so many seconds."""
    left = deque(pieces)

    async def receive():
        await trio.lowlevel.checkpoint()
        while left and not isinstance(left[0], bytes):
            await trio.sleep(left[0])
            left.popleft()
        return left.popleft() if left else b""

    return receive


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


# -- the terminal ------------------------------------------------------------------------------------


async def test_a_terminal_begins_shows_and_ends(stage):
    await stage.play(b"one ", b"two\n")
    terminal = stage.live.terminal_id
    assert stage.events[0] == TerminalUpdate(terminal, "make", "/w")
    assert stage.events[-1] == TerminalUpdate(terminal, exit_status=DONE)
    assert {type(event) for event in stage.events[1:-1]} == {TerminalOutput}
    assert stage.screen == b"one two\n"
    assert stage.live.content == Terminal(terminal)
    assert stage.live.for_model() == "one two\n"
    assert not stage.live.cut
    assert not stage.folder.exists()
    assert stage.live.kept_in is None


def test_the_caller_may_have_made_the_terminals_id(stage):
    live = LiveOutput(stage.context, command="make", cwd="/w", terminal_id=TerminalId("term_1"))
    assert live.content == Terminal(TerminalId("term_1"))


async def test_a_silent_program_has_a_terminal_too(stage):
    await stage.play()
    assert stage.events == [
        TerminalUpdate(stage.live.terminal_id, "make", "/w"),
        TerminalUpdate(stage.live.terminal_id, exit_status=DONE),
    ]
    assert stage.live.for_model() == ""


def test_an_end_is_told_once_and_tells_what_was_not_begun(stage):
    stage.live.end_nowait(ExitStatus(signal="SIGKILL"))
    stage.live.end_nowait(DONE)
    assert stage.events == [
        TerminalUpdate(stage.live.terminal_id, "make", "/w"),
        TerminalUpdate(stage.live.terminal_id, exit_status=ExitStatus(signal="SIGKILL")),
    ]


async def test_many_small_writes_are_few_events(stage, autojump_clock):
    pieces = [b"%d\n" % number for number in range(1, 2001)]
    await stage.play(*(part for piece in pieces for part in (piece, 0.001)))
    assert stage.screen == b"".join(pieces)
    # Two seconds of output, twenty times a second.
    assert 30 <= len(stage.pieces) <= 42


async def test_the_first_words_are_shown_while_nothing_else_comes(stage, autojump_clock):
    with trio.move_on_after(5):
        await stage.live.begin()
        await stage.live.follow(source([b"a", 1, b"b", b"c", 0.01, b"d", 1000]))
    assert stage.pieces == [b"a", b"b", b"cd"]


async def test_a_flood_is_shown_in_pieces_of_some_size(stage):
    await stage.play(*[b"x" * 1000] * 500)
    assert stage.screen == b"x" * 500_000
    assert all(len(piece) < SHOW_BYTES + 1000 for piece in stage.pieces)
    assert len(stage.pieces) <= 30


@pytest.mark.parametrize("more", [0, 1, 10 * LIVE_BYTES])
async def test_live_and_replay_show_the_same(stage, more):
    data = os.urandom(LIVE_BYTES // 4) * 4 + b"!" * more
    await stage.play(*(data[at : at + 65_536] for at in range(0, len(data), 65_536)))
    replay = Replay()
    (shown,) = [*replay.feed(stage.events), *replay.end()]
    assert shown == TerminalUpdate(stage.live.terminal_id, "make", "/w", stage.screen, DONE)
    ended = [event for event in stage.events if isinstance(event, TerminalUpdate) and event.exit_status]
    assert ended == stage.events[-1:]
    if not more:
        assert stage.screen == data
        assert ended[0].output is None
        return
    assert sum(map(len, stage.pieces)) <= LIVE_BYTES + 200
    assert stage.pieces[-1].endswith(module.MORE_FOLLOWS)
    assert ended[0].output == stage.screen
    assert len(stage.screen) < module.SCREEN_HEAD_BYTES + module.SCREEN_TAIL_BYTES + 100
    assert stage.screen.startswith(data[: module.SCREEN_HEAD_BYTES - 3])
    assert stage.screen.endswith(data[3 - module.SCREEN_TAIL_BYTES :])
    assert b" bytes left out]\n" in stage.screen


# -- the model and the artifact ----------------------------------------------------------------------


async def test_characters_that_pieces_split_are_whole(stage):
    await stage.play(b"x\xe2", 0.06, b"\x80", 0.06, b"\x94 y \xf0\x9d")
    assert stage.live.for_model() == "x— y \ufffd"
    assert stage.screen == b"x\xe2\x80\x94 y \xf0\x9d"


async def test_output_up_to_the_models_bound_is_not_cut(stage):
    await stage.play(b"y" * MODEL_BYTES)
    assert stage.live.for_model() == "y" * MODEL_BYTES
    assert not stage.folder.exists()


async def test_longer_output_is_cut_counted_and_kept(stage):
    text = "".join(f"{number} 𝄞\n" for number in range(10_000))
    data = text.encode()
    await stage.play(*(data[at : at + 1001] for at in range(0, len(data), 1001)))
    path = str(stage.folder / "call_1.txt")
    assert stage.artifact == data
    assert stage.live.kept_in == path
    words = stage.live.for_model()
    head, tail = words.partition("\n[")[0], words.partition("]\n")[2]
    assert text.startswith(head)
    assert text.endswith(tail)
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    assert left_out <= len(data) - MODEL_BYTES + 6
    assert f"[{left_out:,} bytes left out here. The whole, {len(data):,} bytes, is in {path}. " in words
    assert stage.live.where_kept() == f"The whole, {len(data):,} bytes, is in {path}."
    assert stage.live.total == len(data)


@pytest.mark.parametrize("cut", range(1, len(KEY), 5))
@pytest.mark.parametrize("before", [0, MODEL_BYTES])
async def test_a_key_in_two_pieces_is_nowhere(tmp_path, cut, before):
    stage = Stage(tmp_path, [KEY])
    whole = b"a" * before + b"key=" + KEY.encode() + b"; " + b"b" * 100
    at = whole.index(KEY.encode()) + cut
    await stage.play(whole[:at], 2 * module.SHOW_EVERY_S, whole[at:])
    hidden = whole.replace(KEY.encode(), b"[redacted]")
    assert stage.screen == hidden
    assert all(KEY[:cut].encode() not in piece for piece in stage.pieces if cut > 4)
    if before:
        assert stage.artifact == hidden
        assert "[redacted]; bbb" in stage.live.for_model()
    else:
        assert stage.live.for_model() == hidden.decode()


async def test_what_only_looks_like_the_beginning_of_a_key_is_shown_at_the_end(tmp_path):
    stage = Stage(tmp_path, [KEY])
    await stage.play(b"done: " + KEY[:5].encode())
    assert stage.screen == b"done: " + KEY[:5].encode()
    assert stage.live.for_model() == "done: " + KEY[:5]


async def test_a_full_disk_is_told_of_and_the_program_goes_on(stage, monkeypatch):
    write, room = os.write, 1_500_000

    def full(descriptor, data):
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(descriptor, data[:room])
        room -= taken
        return taken

    pieces = [b"x" * 65_536] * 64
    monkeypatch.setattr(os, "write", full)
    await stage.play(*pieces)
    assert stage.live.total == 65_536 * 64
    place = stage.folder / "call_1.txt"
    why = f"Only its first 1,500,000 bytes could be kept, in {place}: No space left on device."
    assert why in stage.live.for_model()
    assert stage.live.where_kept() == why
    assert stage.artifact == b"x" * 1_500_000


async def test_nothing_follows_what_a_full_disk_did_not_take(stage, monkeypatch):
    """Room that comes later is not used: a file with a gap in it would pass for the output."""
    write, full = Artifact.write, True

    def once_full(self, data):
        if full:
            write(self, data[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, data)

    monkeypatch.setattr(Artifact, "write", once_full)
    stage.live._take(b"a" * module.WRITE_BYTES)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.live._whole.written)
        await trio.lowlevel.checkpoint()
        stage.live._take(b"b" * 10)  # as the last bytes of a cancelled program, whose thread is still at work
    full = False
    stage.live.end_nowait(DONE)
    await stage.live.finish()
    assert stage.artifact == b"a" * 10
    assert "Only its first 10 bytes" in stage.live.where_kept()


async def test_a_disk_without_a_place_for_it_is_told_of(stage, caplog):
    stage.folder.write_text("a file where the folder should be")
    await stage.play(*[b"x" * 65_536] * 40)
    assert "The whole could not be kept: Not a directory." in stage.live.for_model()
    assert stage.live.kept_in is None
    assert "cannot be kept" in caplog.text


async def test_the_bound_of_a_session_is_told_of(stage):
    stage.context.artifacts.max_bytes = 100_000
    await stage.play(b"x" * 200_000)
    assert "Only its first 100,000 bytes could be kept" in stage.live.for_model()
    assert "bound of a session" in stage.live.for_model()


async def test_a_program_that_writes_without_end_is_given_up(stage, monkeypatch):
    monkeypatch.setattr(module, "MAX_OUTPUT_BYTES", 1_000_000)
    calls = 0

    async def endless():
        nonlocal calls
        await trio.lowlevel.checkpoint()
        calls += 1
        return b"y\n" * 10_000

    await stage.live.begin()
    await stage.live.follow(endless)
    assert stage.live.overflowed
    assert calls == 50


async def test_memory_does_not_grow_with_the_output(stage):
    piece = b"y\n" * 32_768

    async def receive():
        await trio.lowlevel.checkpoint()
        return piece if stage.live.total < 100_000_000 else b""

    stage.context.artifacts.max_bytes = 10_000_000
    tracemalloc.start()
    try:
        await stage.live.begin()
        await stage.live.follow(receive)
        stage.live.end_nowait(DONE)
        await stage.live.finish()
        assert stage.live.for_model()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
    assert stage.live.total >= 100_000_000


# -- what is slow, and what is cancelled -------------------------------------------------------------


async def test_an_editor_that_does_not_read_stops_the_program_and_no_cancel(stage):
    stage.slow = trio.Event()
    taken = 0

    async def receive():
        nonlocal taken
        await trio.lowlevel.checkpoint()
        taken += 1
        return b"x" * 1000

    async def follow():
        stage.slow.set()
        await stage.live.begin()
        stage.slow = trio.Event()
        await stage.live.follow(receive)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await trio.testing.wait_all_tasks_blocked()
        assert taken * 1000 <= SHOW_BYTES + 1000
        assert stage.pieces == []
        nursery.cancel_scope.cancel()
    stage.live.end_nowait(ExitStatus(signal="SIGKILL"))
    assert stage.screen == b"x" * 1000 * taken
    assert stage.events[-1].exit_status == ExitStatus(signal="SIGKILL")


async def test_a_long_output_does_not_wait_for_an_editor(stage):
    """What the terminal is not shown any more cannot hold the program up."""
    stage.slow = trio.Event()
    stage.slow.set()
    pieces = [b"x" * 65_536] * 100
    receive = source(pieces)
    await stage.live.begin()

    async def watched():
        if stage.live.total > LIVE_BYTES + 2 * 65_536:
            stage.slow = trio.Event()
        return await receive()

    with trio.fail_after(20):
        await stage.live.follow(watched)
    assert stage.live.total == 65_536 * 100


class Stepping(Workspace):
    """Its threads are one more thing to wait for."""

    async def in_thread(self, work):
        await self.step()
        return await super().in_thread(work)


@pytest.mark.parametrize("size", [20_000, 300_000])
async def test_a_cancel_at_any_step_loses_nothing(tmp_path, size):
    """The k-th wait, whatever it is for, is the one at which the cancel comes, until there is none."""
    for cancel_at in itertools.count(1):
        root = tmp_path / str(cancel_at)
        root.mkdir()
        cancelled = await cancelled_at(cancel_at, root, size)
        assert cancel_at < 100
        if not cancelled:
            break
    assert cancel_at > 12


async def cancelled_at(cancel_at, root, size):
    """A life of the output that is cancelled at one step, if it has as many; whether it was."""
    steps = 0

    async def step():
        nonlocal steps
        steps += 1
        if steps == cancel_at:
            scope.cancel()
        await trio.lowlevel.checkpoint()

    async def receive():
        await step()
        given.append(pieces.popleft() if pieces else b"")
        return given[-1]

    async def publish(event):
        await step()
        stage.events.append(event)

    stage = Stage(root)
    files = Stepping(str(root), home=None)
    files.step = step
    stage.live._whole._context = attrs.evolve(stage.context, files=files)
    stage.live._publish = publish
    given = []
    pieces = deque([b"%d" % number * size for number in range(9)])
    with trio.CancelScope() as scope:
        await stage.live.begin()
        await stage.live.follow(receive)
    stage.live.end_nowait(DONE)
    await stage.live.finish()
    whole = b"".join(given)
    if len(whole) <= LIVE_BYTES:
        assert stage.screen == whole
    else:
        assert stage.screen.endswith(whole[-module.SCREEN_TAIL_BYTES :])
    assert sum(isinstance(event, TerminalUpdate) for event in stage.events) == 2
    assert (stage.events[0].command, stage.events[-1].exit_status) == ("make", DONE)
    if stage.live.cut:
        assert stage.artifact == whole
    else:
        assert stage.live.for_model().encode() == whole
    return scope.cancelled_caught


async def test_no_cancel_ends_the_last_write(stage):
    with trio.CancelScope() as scope:
        scope.cancel()
        await stage.live.finish()  # there is nothing to write yet
        stage.live._take(b"x" * 100_000)
        stage.live.end_nowait(DONE)
        await stage.live.finish()
    assert stage.artifact == b"x" * 100_000
    assert "The whole, 100,000 bytes" in stage.live.where_kept()


async def test_a_disk_that_hangs_stops_the_program_and_no_cancel(tmp_path, monkeypatch):
    stage = Stage(tmp_path, [KEY])
    write, hanging, go_on = Artifact.write, threading.Event(), threading.Event()

    def hang(self, data):
        hanging.set()
        assert go_on.wait(20)
        write(self, data)

    monkeypatch.setattr(Artifact, "write", hang)
    monkeypatch.setattr(module, "CLOSE_DEADLINE_S", 0.05)
    # The end of each piece is held back until the next: it may be the beginning of a key.
    piece = b"x" * 65_531 + KEY[:5].encode()
    given = 0

    async def receive():
        nonlocal given
        await trio.lowlevel.checkpoint()
        given += 1
        return piece

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.live.follow, receive)
        await until(hanging.is_set)
        await trio.testing.wait_all_tasks_blocked()
        assert given * len(piece) <= module.WRITE_BYTES + 2 * len(piece)
        nursery.cancel_scope.cancel()
    stage.live.end_nowait(DONE)
    await stage.live.finish()
    assert "Only its first 0 bytes could be kept" in stage.live.for_model()
    assert "the disk is slow" in stage.live.for_model()
    # Nobody waits for those threads any more, and they write everything in its order.
    go_on.set()
    await until(lambda: stage.live._whole._closed)
    assert stage.artifact == piece * given
