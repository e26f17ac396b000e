"""The text in a file: encodings that give the same bytes back, what is binary, and line ends."""

import codecs
import os

import pytest

from term2_acp.workspace import FileRefused, LineEnd, has_one_line_end, line_end_of, text_of


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"", "", "utf-8"),
        ("é\u2028\f𝄞\r\n".encode(), "é\u2028\f𝄞\r\n", "utf-8"),
        (codecs.BOM_UTF8 + b"a", "a", "utf-8"),
        (codecs.BOM_UTF8 + codecs.BOM_UTF8 + b"a", "\ufeffa", "utf-8"),
        (codecs.BOM_UTF16_LE + "aé".encode("utf-16-le"), "aé", "utf-16-le"),
        (codecs.BOM_UTF16_BE + "aé".encode("utf-16-be"), "aé", "utf-16-be"),
        (codecs.BOM_UTF32_LE + "a".encode("utf-32-le"), "a", "utf-32-le"),
        (b"caf\xe9 au lait, s'il vous pla\xeet", "café au lait, s'il vous plaît", "latin-1"),
    ],
)
def test_text_comes_out_and_goes_back_to_the_same_bytes(data, text, encoding):
    found = text_of(data)
    assert found is not None
    assert (found.text, found.encoding) == (text, encoding)
    assert found.encode(found.text) == data


@pytest.mark.parametrize(
    "data",
    [
        b"a\0b",
        b"\x7fELF\x02\x01\x01\0",
        codecs.BOM_UTF16_LE + b"\0",  # half a character
        codecs.BOM_UTF16_LE + b"a\0\0\0",
        codecs.BOM_UTF16_LE + b"\x00\xd8a\0",  # half a surrogate pair
        b"\xfd\xfe\x01\x02\x03\x04\x05" * 9 + b"\x06",
    ],
)
def test_binary_files_are_no_text(data):
    assert text_of(data) is None


def test_text_that_is_encoded_has_no_mark_of_its_own():
    assert text_of(b"a").encode("b") == b"b"
    assert text_of(codecs.BOM_UTF8 + b"a").encode("b") == codecs.BOM_UTF8 + b"b"


def test_an_encoding_that_cannot_hold_a_character_refuses_it():
    with pytest.raises(FileRefused, match="latin-1, which cannot hold U\\+20AC"):
        text_of(b"caf\xe9").encode("caf€")


@pytest.mark.parametrize(
    ("text", "end", "one"),
    [
        ("", LineEnd.LF, True),
        ("a", LineEnd.LF, True),
        ("a\nb\n", LineEnd.LF, True),
        ("a\r\nb\r\n", LineEnd.CRLF, True),
        ("a\r\nb\n", LineEnd.CRLF, False),
        ("a\nb\r\n", LineEnd.LF, False),
        ("\n", LineEnd.LF, True),
        ("a\rb\r", LineEnd.CR, True),
        ("a\rb\n", LineEnd.LF, True),
        ("a\u2028b\x0cc\x85d", LineEnd.LF, True),
    ],
)
def test_what_ends_lines(text, end, one):
    assert line_end_of(text) is end
    assert has_one_line_end(text) is one


def test_random_bytes_give_themselves_back():
    for _ in range(200):
        data = os.urandom(7)
        found = text_of(data)
        assert found is None or found.encode(found.text) == data
