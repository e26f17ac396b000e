"""What servers said of their models, in a file: kept exactly, private, for so long, and as good as absent
when it is damaged. What a killed writer leaves behind is no hindrance."""

import os
import stat
from pathlib import Path

import pytest

from term2_acp.domain.usage import Prices
from term2_acp.providers.servers.cache import (
    FILE,
    LOCAL_S,
    MAX_FILE_BYTES,
    MAX_KEPT_MODELS,
    MAX_SERVERS,
    REMOTE_S,
    ModelsCache,
)
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.listing import Listing, ServerModel

URL = "http://127.0.0.1:8080/v1"
FACTS = ServerFacts(32_768, 4096, True, Prices(3_000_000, 15_000_000, 300_000, None))
LISTING = Listing(
    (
        ServerModel("a/b:c", FACTS, loaded=True, owner="me", told=True),
        ServerModel("embeds", ServerFacts(sees_images=False), talks=False),
        ServerModel("bare"),
    )
)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_what_is_kept_comes_back_exactly(tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    ModelsCache(str(state)).keep(URL, LISTING)
    kept = ModelsCache(str(state)).listing(URL + "/", local=True)
    assert kept is not None
    assert (kept.listing, kept.fresh) == (LISTING, True)
    assert ModelsCache(str(state)).listing("http://127.0.0.1:8081/v1", local=True) is None
    assert stat.S_IMODE((state / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert [path.name for path in state.iterdir()] == [FILE]


@pytest.mark.parametrize(("local", "life_s"), [(True, LOCAL_S), (False, REMOTE_S)])
def test_an_entry_lives_so_long(tmp_path: Path, local: bool, life_s: int) -> None:
    clock = Clock()
    cache = ModelsCache(str(tmp_path), clock)
    cache.keep(URL, LISTING)
    for age, fresh in [(0, True), (life_s - 1, True), (life_s, False), (-1, False)]:
        clock.now = Clock.now + age
        kept = cache.listing(URL, local=local)
        assert kept is not None
        assert kept.fresh is fresh


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"version": 2, "servers": {}}',
        b'{"version": 1, "servers": {"%s": {"asked": "now", "models": []}}}' % URL.encode(),
        b'{"version": 1, "servers": {"%s": {"asked": 1, "models": [{"id": 1}]}}}' % URL.encode(),
        b"[" * 100_000,
        b" " * (MAX_FILE_BYTES + 1) + b'{"version": 1, "servers": {}}',
    ],
)
def test_a_damaged_file_is_an_absent_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    cache = ModelsCache(str(tmp_path))
    assert cache.listing(URL, local=True) is None
    cache.keep(URL, LISTING)
    kept = cache.listing(URL, local=True)
    assert kept is not None
    assert kept.listing == LISTING


def test_facts_that_cannot_be_are_no_facts(tmp_path: Path) -> None:
    rows = (
        '{"id": "m", "context": -1, "output": 0, "prices": [-1, 2, null, null]}',
        '{"id": "dear", "prices": [1, 1000000000001, null, null]}',
        '{"id": "two\\nlines"}',
        f'{{"id": "{"x" * 10_000}"}}',
    )
    content = f'{{"version": 1, "servers": {{"{URL}": {{"asked": 1, "models": [{",".join(rows)}]}}}}}}'
    (tmp_path / FILE).write_text(content)
    kept = ModelsCache(str(tmp_path)).listing(URL, local=True)
    assert kept is not None
    assert kept.listing == Listing((ServerModel("m"), ServerModel("dear")))


def test_what_is_not_a_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    cache = ModelsCache(str(tmp_path))
    assert cache.listing(URL, local=True) is None
    cache.keep(URL, LISTING)
    assert cache.listing(URL, local=True) is not None
    # Nor does one that somebody else holds open.
    held = tmp_path / "held"
    held.mkdir()
    os.mkfifo(held / FILE)
    end = os.open(held / FILE, os.O_RDWR)
    assert ModelsCache(str(held)).listing(URL, local=True) is None
    os.close(end)
    other = tmp_path / "other"
    other.mkdir()
    (other / FILE).symlink_to(tmp_path / FILE)
    assert ModelsCache(str(other)).listing(URL, local=True) is None


def test_it_is_bounded(tmp_path: Path) -> None:
    clock = Clock()
    cache = ModelsCache(str(tmp_path), clock)
    many = Listing(tuple(ServerModel(f"m{number}") for number in range(MAX_KEPT_MODELS + 1)))
    cache.keep(URL, many)
    kept = cache.listing(URL, local=True)
    assert kept is not None
    assert (len(kept.listing.models), kept.listing.whole) == (MAX_KEPT_MODELS, False)
    for number in range(MAX_SERVERS):
        clock.now += 1
        cache.keep(f"http://10.0.0.{number}/v1", LISTING)
    assert cache.listing(URL, local=True) is None  # it was asked first
    assert cache.listing("http://10.0.0.0/v1", local=False) is not None


def test_a_directory_that_cannot_be_written_to_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = ModelsCache(str(tmp_path / "file" / "state"))
    cache.keep(URL, LISTING)
    assert cache.listing(URL, local=True) is None


def test_a_folder_in_its_place_costs_no_descriptor_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    cache = ModelsCache(str(tmp_path))
    before = os.listdir("/proc/self/fd")
    assert cache.listing(URL, local=True) is None
    cache.keep(URL, LISTING)
    assert os.listdir("/proc/self/fd") == before
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_name_that_was_left_behind_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.{os.getpid()}").write_text("half of a f")
    ModelsCache(str(tmp_path)).keep(URL, LISTING)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
