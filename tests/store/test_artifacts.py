"""The artifacts of a session on a real disk: private files, the oldest of which make room for the newest, and
writers that may be left behind in a thread."""

import errno
import os
import stat
import threading

import pytest

from term2_acp.domain.ids import SessionId
from term2_acp.store.artifacts import MAX_SESSION_BYTES, Artifacts, artifact_name, artifacts_of


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state" / "artifacts" / "sess_1"


def kept(artifacts, name, data):
    artifact = artifacts.open(name)
    artifact.write(data)
    artifact.close()
    return artifact


def age(folder, *names):
    """Make the files older than any other, the first named the oldest."""
    for when, name in enumerate(names):
        os.utime(folder / name, (when, when))


def sizes(folder):
    return {entry.name: entry.stat().st_size for entry in os.scandir(folder)}


def test_a_file_is_written_piece_by_piece_and_is_its_owners_alone(folder):
    artifacts = artifacts_of(str(folder.parent.parent), SessionId("sess_1"))
    assert not folder.exists()  # nothing is made for a session that never needs it
    previous = os.umask(0)
    try:
        artifact = artifacts.open(artifact_name("call_1"))
        artifact.write(b"one ")
        artifact.write(b"")
        artifact.write(b"two")
    finally:
        os.umask(previous)
    assert artifact.path == str(folder / "call_1.txt")
    assert (folder / "call_1.txt").read_bytes() == b"one two"
    assert (artifact.size, artifact.cut) == (7, False)
    for made in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "call_1.txt").stat().st_mode) == 0o600
    assert artifacts.max_bytes == MAX_SESSION_BYTES
    artifact.close()
    artifact.close()
    with pytest.raises(ValueError, match="closed"):
        artifact.write(b"three")


def test_the_oldest_go_first_and_only_as_far_as_is_needed(folder):
    artifacts = Artifacts(str(folder), 100)
    for name in ("c", "a", "b"):
        kept(artifacts, name, b"x" * 30)
    age(folder, "b", "c", "a")
    growing = artifacts.open("new")
    growing.write(b"x" * 10)
    assert sizes(folder) == {"a": 30, "b": 30, "c": 30, "new": 10}
    growing.write(b"x")
    assert sizes(folder) == {"a": 30, "c": 30, "new": 11}
    growing.write(b"x" * 59)
    assert sizes(folder) == {"a": 30, "new": 70}
    growing.close()
    assert not growing.cut


def test_one_output_is_cut_at_the_bound_of_the_session(folder):
    artifacts = Artifacts(str(folder), 100)
    kept(artifacts, "old", b"x" * 50)
    growing = artifacts.open("new")
    growing.write(b"0" * 90)
    growing.write(b"1" * 20)
    assert (growing.size, growing.cut) == (100, True)
    growing.write(b"2")
    growing.close()
    assert sizes(folder) == {"new": 100}
    assert (folder / "new").read_bytes() == b"0" * 90 + b"1" * 10


def test_after_a_gap_nothing_is_written_even_if_it_would_fit(folder):
    artifacts = Artifacts(str(folder), 100)
    growing = artifacts.open("new")
    growing.write(b"0" * 200)
    os.truncate(folder / "new", 0)
    growing.write(b"1")
    growing.close()
    assert sizes(folder) == {"new": 0}


def test_what_cannot_be_removed_is_counted_and_told_of(folder, caplog):
    folder.mkdir(parents=True)
    (folder / "a folder").mkdir()
    age(folder, "a folder")
    size = (folder / "a folder").stat().st_size
    artifacts = Artifacts(str(folder), size + 10)
    growing = artifacts.open("new")
    growing.write(b"x" * 20)
    growing.close()
    assert (growing.size, growing.cut) == (10, True)
    assert "cannot be removed" in caplog.text


def test_a_file_that_somebody_removed_meanwhile_makes_room_too(folder):
    artifacts = Artifacts(str(folder), 100)
    kept(artifacts, "old", b"x" * 90)
    growing = artifacts.open("new")
    os.unlink(folder / "old")
    growing.write(b"x" * 100)
    growing.close()
    assert (growing.size, growing.cut) == (100, False)


def test_no_link_is_followed(folder, tmp_path):
    folder.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / "call").symlink_to(victim)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        Artifacts(str(folder)).open("call")
    assert victim.read_text() == "precious"


def test_a_place_that_cannot_be_made_is_an_error_and_leaves_no_descriptor(tmp_path):
    (tmp_path / "state").write_text("a file")
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR)):
        Artifacts(str(tmp_path / "state" / "artifacts")).open("call")
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_full_disk_is_an_error_and_says_what_was_kept(folder, monkeypatch):
    artifact = Artifacts(str(folder)).open("call")
    write, room = os.write, 10

    def full(descriptor, data):
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(descriptor, data[:room])
        room -= taken
        return taken

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        artifact.write(b"x" * 50)
    artifact.close()
    assert (artifact.size, artifact.cut) == (10, False)


def test_a_close_waits_for_a_write_that_was_left_behind(folder, monkeypatch):
    artifact = Artifacts(str(folder)).open("call")
    write, writing, go_on = os.write, threading.Event(), threading.Event()

    def slow(descriptor, data):
        writing.set()
        assert go_on.wait(10)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", slow)
    left_behind = threading.Thread(target=artifact.write, args=(b"all of it",))
    left_behind.start()
    assert writing.wait(10)
    closing = threading.Thread(target=artifact.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    go_on.set()
    left_behind.join(10)
    closing.join(10)
    assert (folder / "call").read_bytes() == b"all of it"


def test_they_go_with_their_session_and_nothing_else_does(folder, tmp_path):
    artifacts = Artifacts(str(folder))
    artifacts.remove()
    kept(artifacts, "call_1.txt", b"one")
    kept(artifacts, "call_2.txt", b"two")
    other = kept(Artifacts(str(folder.parent / "sess_2")), "call_1.txt", b"other")
    artifacts.remove()
    artifacts.remove()
    assert os.listdir(folder.parent) == ["sess_2"]
    os.symlink(folder.parent / "sess_2", folder)
    with pytest.raises(OSError, match="symbolic link"):
        artifacts.remove()
    with open(other.path, "rb") as file:
        assert file.read() == b"other"


def test_a_folder_that_is_left_is_no_success(folder, monkeypatch):
    artifacts = Artifacts(str(folder))
    kept(artifacts, "call_1.txt", b"one")

    def too_late(path):
        raise FileNotFoundError(errno.ENOENT, "gone", path)

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", too_late)
        with pytest.raises(FileNotFoundError):
            artifacts.remove()  # the folder is there: it is to be done again
    artifacts.remove()
    assert not folder.exists()
