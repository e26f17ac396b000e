"""Small files whose bytes are in memory: read on the spot, and whatever would wait is read in a thread."""

import os

import pytest
import trio

from term2_acp.workspace import FileContent, NotRegular, Workspace, resolve
from term2_acp.workspace import content as content_module
from term2_acp.workspace import workspace as workspace_module
from term2_acp.workspace.content import AT_HAND_BYTES, read_at_hand
from term2_acp.workspace.resolve import Resolved

DATA = b"one\ntwo\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path.resolve() / "f"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def files(file, monkeypatch):
    """A workspace whose folder counts as one on a disk, wherever the tests run, and the threads it used."""
    monkeypatch.setattr(resolve.os, "major", lambda _device: 8)
    files = Workspace(str(file.parent), home=None)
    files.in_threads = 0
    in_thread = files.in_thread

    async def counted(work):
        files.in_threads += 1
        return await in_thread(work)

    monkeypatch.setattr(files, "in_thread", counted)
    return files


def in_memory(*blocks):
    """A system that has these blocks of a file in memory, and would have to wait for the next."""
    left = list(blocks)

    def preadv(_descriptor, buffers, offset, _flags):
        assert offset == -1
        if not left:
            raise BlockingIOError
        buffers[0][: len(left[0])] = left[0]
        return len(left.pop(0))

    return preadv


@pytest.fixture
def with_blocks(monkeypatch):
    def put(*blocks):
        monkeypatch.setattr(content_module, "_NO_WAIT", 8)
        monkeypatch.setattr(content_module.os, "preadv", in_memory(*blocks), raising=False)

    return put


async def test_what_is_in_memory_is_read_without_a_thread(files, with_blocks):
    with_blocks(DATA[:3], DATA[3:], b"")
    assert await files.load(files.resolve("f")) == FileContent.of(DATA)
    assert files.in_threads == 0


@pytest.mark.parametrize("blocks", [(), (DATA[:3],), (DATA,)], ids=["nothing", "a part", "all but the end"])
async def test_what_would_wait_is_read_in_a_thread_and_whole(files, with_blocks, blocks):
    with_blocks(*blocks)
    assert await files.load(files.resolve("f")) == FileContent.of(DATA)
    assert files.in_threads == 1


async def test_a_system_that_cannot_tell_reads_in_a_thread(files, monkeypatch):
    monkeypatch.setattr(content_module, "_NO_WAIT", None)
    assert await files.load(files.resolve("f")) == FileContent.of(DATA)
    assert files.in_threads == 1


async def test_what_comes_over_a_network_is_not_even_opened_on_the_spot(files, monkeypatch):
    def opened(_path):
        raise AssertionError("opened on the spot")

    monkeypatch.setattr(workspace_module, "read_at_hand", opened)
    monkeypatch.setattr(resolve.os, "major", lambda _device: 0)
    assert await files.load(files.resolve("f")) == FileContent.of(DATA)
    assert files.in_threads == 1


@pytest.mark.parametrize(("size", "in_threads"), [(0, 0), (AT_HAND_BYTES, 0), (AT_HAND_BYTES + 1, 1)])
async def test_only_small_files_are(files, file, with_blocks, size, in_threads):
    data = b"x" * size
    file.write_bytes(data)
    with_blocks(*([data, b""] if size else [b""]))
    assert await files.load(files.resolve("f")) == FileContent.of(data)
    assert files.in_threads == in_threads


async def test_a_cancel_comes_before_the_read(files, with_blocks):
    with_blocks(DATA, b"")
    with trio.CancelScope() as scope:
        scope.cancel()
        await files.load(files.resolve("f"))
    assert scope.cancelled_caught


def test_the_same_kinds_are_refused_and_no_descriptor_is_left(tmp_path, with_blocks):
    before = len(os.listdir("/proc/self/fd"))
    os.mkfifo(tmp_path / "fifo")
    with_blocks()
    with pytest.raises(NotRegular, match="FIFO"):
        read_at_hand(str(tmp_path.resolve() / "fifo"))
    (tmp_path / "f").touch()
    assert read_at_hand(str(tmp_path.resolve() / "f")) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_real_system_gives_the_same_bytes_or_none(file):
    assert read_at_hand(str(file)) in (FileContent.of(DATA), None)


def test_what_a_block_device_holds_is_on_a_disk():
    def lies_on(device):
        return Resolved("/a/f", (), {"/a/f": (device, 7)}).on_disk

    assert lies_on(os.makedev(8, 1))
    assert lies_on(os.makedev(254, 0))
    assert not lies_on(os.makedev(0, 41))
    assert not Resolved("/a/f", (), {"/a": (os.makedev(8, 1), 7)}).on_disk  # there is nothing at the path
