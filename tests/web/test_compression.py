"""Compression on its way through: whatever the pieces in which it comes, out comes what went in, in bounded
pieces, each as soon as it can be known; and what is not gzip, or breaks off, is said to be so."""

import gzip
import random
import zlib

import pytest

from term2_acp.web.compression import PIECE_BYTES, Compression, NotReadable, Passing, compression_of


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (None, Compression.NONE),
        ("", Compression.NONE),
        (" Identity ", Compression.NONE),
        ("GZIP", Compression.GZIP),
        ("x-gzip", Compression.GZIP),
        ("gzip, gzip", None),
        ("br", None),
        ("deflate", None),
        ("zstd", None),
    ],
)
def test_what_a_header_says(header: str | None, found: Compression | None) -> None:
    assert compression_of(header) is found


def test_what_is_not_compressed_passes_as_it_is() -> None:
    passing = Passing(Compression.NONE)
    assert list(passing.feed(b"\x1f\x8b")) == [b"\x1f\x8b"]
    passing.finish()


@pytest.mark.parametrize("size", [0, 1, 100, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 1_000_000])
@pytest.mark.parametrize("cut", [1, 7, 1_000_000])
@pytest.mark.parametrize("kind", ["zeros", "noise"])
def test_any_cut_gives_the_same_bytes(size: int, cut: int, kind: str) -> None:
    if cut == 1 and kind == "noise":
        size = min(size, 1000)  # a million calls show no more than a thousand
    body = bytes(size) if kind == "zeros" else random.Random(size).randbytes(size)
    wire = gzip.compress(body, mtime=0)
    passing = Passing(Compression.GZIP)
    pieces = [piece for at in range(0, len(wire), cut) for piece in passing.feed(wire[at : at + cut])]
    passing.finish()
    assert b"".join(pieces) == body
    assert max(map(len, pieces), default=0) <= PIECE_BYTES


def test_what_can_be_known_comes_at_once() -> None:
    """An event that the server has sent must not wait in our buffers for the next one."""
    wire = gzip.compress(b"x" * 5 * PIECE_BYTES, mtime=0)
    for cut in range(len(wire)):
        known = len(zlib.decompressobj(31).decompress(wire[:cut]))
        assert sum(map(len, Passing(Compression.GZIP).feed(wire[:cut]))) == known


def test_padding_after_the_end_is_ignored() -> None:
    passing = Passing(Compression.GZIP)
    assert list(passing.feed(gzip.compress(b"x", mtime=0) + b"\0\0")) == [b"x"]
    assert list(passing.feed(b"\0")) == []
    passing.finish()


@pytest.mark.parametrize("wire", [b"hello hello", gzip.compress(b"hello", mtime=0)[:-8] + b"12345678"])
def test_what_is_not_gzip(wire: bytes) -> None:
    with pytest.raises(NotReadable):
        list(Passing(Compression.GZIP).feed(wire))


def test_what_breaks_off() -> None:
    passing = Passing(Compression.GZIP)
    assert list(passing.feed(gzip.compress(b"hello", mtime=0)[:-3])) == [b"hello"]
    with pytest.raises(NotReadable, match="incomplete"):
        passing.finish()


def test_nothing_at_all_is_whole() -> None:
    Passing(Compression.GZIP).finish()
