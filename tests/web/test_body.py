"""A body's type, letters and compression: the order in which its encoding is found, what is no text whatever
it is called, and a bound that holds while a bomb is decompressed."""

import codecs
import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable
from random import Random

import pytest

from term2_acp.web import body as web_body
from term2_acp.web.body import (
    _OF_THE_WEB,
    ContentType,
    Inflow,
    NotReadable,
    content_type_of,
    is_html,
    to_text,
)


@pytest.mark.parametrize(
    ("header", "media_type", "charset", "is_text"),
    [
        ("text/html; charset=UTF-8", "text/html", "utf-8", True),
        ('Text/HTML;Charset="koi8-r"', "text/html", "koi8-r", True),
        ("text/plain; format=flowed; charset = latin1", "text/plain", "latin1", True),
        ("application/json", "application/json", None, True),
        ("application/ld+json", "application/ld+json", None, True),
        ("image/svg+xml", "image/svg+xml", None, True),
        ("application/x-yaml", "application/x-yaml", None, True),
        ("application/pdf", "application/pdf", None, False),
        ("image/png", "image/png", None, False),
        ("application/octet-stream", "application/octet-stream", None, False),
        ("multipart/x-mixed-replace", "multipart/x-mixed-replace", None, False),
        ("", "", None, True),
        (None, "", None, True),
        ("nonsense", "", None, True),
        ("text/x\x1b[2J; charset=a\x1bb", "text/x", "a", True),
    ],
)
def test_content_types(header: str | None, media_type: str, charset: str | None, is_text: bool) -> None:
    kind = content_type_of(header)
    assert (kind, kind.is_text) == (ContentType(media_type, charset), is_text)
    assert kind.text.isprintable()


def test_a_header_that_is_built_to_be_slow_is_read_at_once() -> None:
    began = time.process_time()
    content_type_of("text/html; charset=" + " " * 100_000 + "!")
    is_html(ContentType(""), b"<!-->-->" * 200)
    to_text(ContentType("text/html"), b"<meta " * 200)
    assert time.process_time() - began < 0.5


WORD = "Grüße"


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", WORD.encode("latin-1"), WORD),
        ("text/plain; charset=iso-8859-1", b"\x93x\x94", "\u201cx\u201d"),
        ("text/plain; charset=iso-8859-1", b"a\x81b", "a\ufffdb"),
        ("text/plain; charset=windows-1255", b"\xe0\xff", "\u05d0\ufffd"),
        ("text/plain; charset=utf-8", b"\xff\xfeG\x00", "G"),
        ("text/plain; charset=latin1", b"\xef\xbb\xbf" + WORD.encode(), WORD),
        ("text/plain; charset=utf-16", WORD.encode("utf-16-le"), WORD),
        ("text/plain; charset=shift_jis", "日本①".encode("cp932"), "日本①"),
        ("text/plain; charset=x-sjis", "日本".encode("cp932"), "日本"),
        ("text/plain; charset=gb2312", "漢字".encode("gb18030"), "漢字"),
        ("text/plain", WORD.encode(), WORD),
        ("text/plain", WORD.encode("latin-1"), "Gr\ufffd\ufffde"),
        ("text/plain; charset=utf-8", WORD.encode("latin-1"), "Gr\ufffd\ufffde"),
        ("text/plain; charset=utf-7", b"+ADw-script+AD4-", "+ADw-script+AD4-"),
        ("text/plain; charset=unicode_escape", rb"\u0041", r"\u0041"),
        ("text/plain; charset=hex", b"41", "41"),
        ("text/plain; charset=no-such", WORD.encode(), WORD),
        ("text/html", b"<meta charset=koi8-r>\xc2", "<meta charset=koi8-r>\u0431"),
        (
            "text/html",
            b'<meta http-equiv=x content="text/html; charset=cp1251">\xe1',
            '<meta http-equiv=x content="text/html; charset=cp1251">\u0431',
        ),
        ("text/html; charset=utf-8", "<meta charset=koi8-r>é".encode(), "<meta charset=koi8-r>é"),
        ("text/html", "<meta charset=utf-16>é".encode(), "<meta charset=utf-16>é"),
        (
            "text/xml",
            b'<?xml version="1.0" encoding="windows-1252"?>\x80',
            '<?xml version="1.0" encoding="windows-1252"?>€',
        ),
        ("text/plain", b"<meta charset=koi8-r>\xc1", "<meta charset=koi8-r>\ufffd"),
        ("application/json", b'{"a":"\\ud800"}', '{"a":"\\ud800"}'),
    ],
)
def test_the_letters_of_a_body(kind: str, body: bytes, text: str) -> None:
    assert to_text(content_type_of(kind), body) == text


@pytest.mark.parametrize("charset", sorted(_OF_THE_WEB))
def test_a_body_is_decoded_piece_by_piece_to_the_same_letters(
    charset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that do not fit are slow to read, and a decoder at work lets no other thread run."""
    random = Random(charset)
    body = b"a" + random.randbytes(3000) + "日本 é".encode(charset, errors="ignore")
    body = body.replace(b"\0", b"\1") if not charset.startswith("utf-16") else body
    sizes: list[int] = []
    found = codecs.getincrementaldecoder

    def counted(encoding: str) -> Callable[..., object]:
        class Counted(found(encoding)):  # type: ignore[misc]
            def decode(self, data: bytes, final: bool = False) -> str:
                sizes.append(len(data))
                return str(super().decode(data, final))

        return Counted

    monkeypatch.setattr(codecs, "getincrementaldecoder", counted)
    for size in (1, 2, 7, 1000):
        monkeypatch.setattr(web_body, "DECODED_AT_ONCE", size)
        sizes.clear()
        assert to_text(ContentType("text/plain", charset), body) == body.decode(charset, errors="replace")
        assert max(sizes) == size


@pytest.mark.parametrize("kind", ["text/plain", "text/html; charset=utf-8", ""])
def test_what_holds_no_text_is_none_whatever_it_is_called(kind: str) -> None:
    assert to_text(content_type_of(kind), b"\x7fELF\x02\x01\x01\x00\x00") is None


@pytest.mark.parametrize(
    ("kind", "body", "html"),
    [
        ("text/html", b"plain", True),
        ("application/xhtml+xml", b"", True),
        ("text/plain", b"<html>", False),
        ("", b" \n<!-- a --> <!-- b --><!DOCTYPE html>", True),
        ("", b"<HTML lang=en>", True),
        ("", b"<htmlx>", False),
        ("", b"hello", False),
    ],
)
def test_what_is_a_page(kind: str, body: bytes, html: bool) -> None:
    assert is_html(content_type_of(kind), body) is html


def fed(inflow: Inflow, data: bytes, size: int) -> Inflow:
    for start in range(0, len(data), size):
        inflow.feed_nowait(data[start : start + size])
    return inflow


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("length", "cut"), [(0, False), (99, False), (100, False), (101, True), (5000, True)]
)
def test_the_bound(compressed: bool, size: int, length: int, cut: bool) -> None:
    data = bytes(range(256)) * 20
    data = data[:length]
    inflow = fed(Inflow(100, compressed), gzip.compress(data) if compressed else data, size)
    assert (inflow.body(), inflow.cut) == (data[:100], cut)
    assert inflow.ended is (cut or compressed)


def test_a_bomb_costs_no_more_than_the_bound() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 100_000
    tracemalloc.start()
    inflow = fed(Inflow(1_000_000, compressed=True), bomb, 65536)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(inflow.body()), inflow.cut) == (1_000_000, True)
    assert peak < 5_000_000


def test_what_follows_the_compressed_data_is_ignored() -> None:
    inflow = fed(Inflow(100, compressed=True), gzip.compress(b"all") + bytes(500), 10)
    assert (inflow.body(), inflow.cut) == (b"all", False)


def test_an_answer_without_a_body_may_say_that_it_is_compressed() -> None:
    assert Inflow(100, compressed=True).body() == b""


@pytest.mark.parametrize("data", [b"not gzip", zlib.compress(b"deflate")])
def test_what_is_not_gzip(data: bytes) -> None:
    with pytest.raises(NotReadable):
        Inflow(100, compressed=True).feed_nowait(data)


def test_compressed_data_that_breaks_off() -> None:
    inflow = fed(Inflow(100, compressed=True), gzip.compress(b"hello")[:-3], 5)
    with pytest.raises(NotReadable, match="incomplete"):
        inflow.body()
