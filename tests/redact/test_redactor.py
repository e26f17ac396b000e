"""Taking secrets out of text: the keys we were given exactly, what looks like a secret in logs only, and
both in time that is linear in the text."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.redact import PLACEHOLDER, ByteStreamRedactor, Redactor, StreamRedactor

KEY = "sk-live-0123456789abcdef"


def test_a_known_key_is_replaced_wherever_it_stands():
    redactor = Redactor([KEY])
    assert redactor.redact(f"a {KEY} b\n{KEY}{KEY}") == "a [redacted] b\n[redacted][redacted]"
    assert redactor.redact("nothing here") == "nothing here"


def test_without_keys_the_text_is_handed_through():
    text = f"Bearer {KEY}"
    assert Redactor().redact(text) is text
    assert not Redactor()
    assert Redactor([KEY])


def test_a_key_that_begins_another_leaves_nothing_of_it():
    assert Redactor(["secret", "secret-and-more"]).redact("secret-and-more secret") == "[redacted] [redacted]"


def test_of_a_key_that_was_cut_no_telling_part_is_left():
    redactor = Redactor([KEY])
    telling = 18  # three quarters of its 24 characters
    for length in range(telling, len(KEY)):
        assert redactor.redact(f"a {KEY[:length]}") == "a [redacted]"
        assert redactor.redact(f"a {KEY[:length]}... b {KEY[:length]}") == "a [redacted]... b [redacted]"
    assert redactor.redact(KEY[: telling - 1]) == KEY[: telling - 1]


def test_a_short_key_leaves_words_that_begin_like_it():
    assert Redactor(["llama-cpp-secret"]).redact("llama-cpp-secre") == "llama-cpp-secre"


def test_a_key_that_begins_like_another_is_taken_out_whole():
    one, other = f"{KEY}-one-key", f"{KEY}-two-key"
    assert Redactor([one, other]).redact(f"{one} {other}") == "[redacted] [redacted]"


def spelt(text: str, every: int, form: str = "\\u{:04x}") -> str:
    """The text with every so manieth letter written as a JSON escape."""
    return "".join(form.format(ord(c)) if place % every == 0 else c for place, c in enumerate(text))


@pytest.mark.parametrize("every", [1, 2, 5, 30])
@pytest.mark.parametrize("form", ["\\u{:04x}", "\\u{:04X}"])
def test_a_key_that_is_spelt_with_escapes_is_replaced(every, form):
    redactor = Redactor([KEY, "another-key-0"])
    written = f'{{"path": "a/{spelt(KEY, every, form)}.txt", "n": "\\u0062"}}'
    assert json.loads(written)["path"] == f"a/{KEY}.txt"
    assert redactor.redact(written) == '{"path": "a/[redacted].txt", "n": "\\u0062"}'
    assert redactor.redact(written.partition(".txt")[0]) == '{"path": "a/[redacted]'
    assert redactor.redact_bytes(written.encode()) == redactor.redact(written).encode()
    twice = f"{spelt(KEY, every, form)} {spelt(KEY, every, form)}"
    assert redactor.redact(twice) == "[redacted] [redacted]"


def test_of_an_escaped_key_that_was_cut_no_telling_part_is_left():
    redactor = Redactor([KEY])
    for length in range(18, len(KEY)):
        assert redactor.redact(f"a {spelt(KEY[:length], 3)}... b") == "a [redacted]... b"
    assert redactor.redact(spelt(KEY[:17], 3)) == spelt(KEY[:17], 3)


def spellings(letter: str) -> list[str]:
    units = letter.encode("utf-16-be").hex()
    escaped = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    plain = [json.dumps(letter, ensure_ascii=False)[1:-1], escaped, escaped.upper().replace("U", "u")]
    return [*plain, "\\/"] if letter == "/" else plain


@given(st.text(st.sampled_from('ab/"é\U0001f9ea$.('), min_size=6, max_size=12), st.data())
def test_any_key_in_any_spelling_of_json(key, data):
    """However a value is written, what it means holds no key afterwards, and the rest of it is as it was."""
    written = "".join(data.draw(st.sampled_from(spellings(letter))) for letter in key)
    assert json.loads(f'"<{written}>"') == f"<{key}>"
    assert json.loads(Redactor([key]).redact(f'"<{written}>"')) == "<[redacted]>"


def test_looking_for_escapes_takes_time_in_proportion():
    redactor = Redactor([KEY, "\\" * 40, "a" * 200])
    text = "\\u0073k-live-01234567" * 40_000
    started = time.perf_counter()
    redactor.redact(text)
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    "useless", ["", " ", "12345", " key \n", "ollama", "Not-Needed", "sk-no-key-required"]
)
def test_what_is_no_secret_spoils_no_text(useless):
    text = f"12345 key ollama Not-Needed sk-no-key-required {useless}"
    assert Redactor([useless]).redact(text) == text


def test_white_space_around_a_key_is_no_part_of_it():
    assert Redactor([f"  {KEY}\n"]).redact(f"<{KEY}>") == "<[redacted]>"


def test_a_redactor_does_not_show_its_keys():
    assert KEY not in repr(Redactor([KEY]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("use sk-proj-abcdefghijklmnop now", "use [redacted] now"),
        ("sk-ant-api03-AAAAAAAAAAAA_BBBB-CC", "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted]"),
        ("github_pat_11ABCDEFG0abcdefghij_xyz", "[redacted]"),
        ("glpat-abcdefghijklmnopqrst", "[redacted]"),
        ("xoxb-123456789012-abcdef", "[redacted]"),
        ("AIzaSyA-0123456789abcdefghijklmnopqrstu", "[redacted]"),
        ("hf_abcdefghijklmnopqrstuvwxyz", "[redacted]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123", "[redacted]"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [redacted]"),
        ("authorization: basic dXNlcjpwYXNzd29yZA==", "authorization: basic [redacted]"),
        ("https://me:hunter22@host/x", "https://me:[redacted]@host/x"),
        ("api_key=abcdef123 next", "api_key=[redacted] next"),
        ('{"api-key": "abcdef123", "n": 1}', '{"api-key": "[redacted]", "n": 1}'),
        ("export OPENAI_API_KEY='abcdef123'", "export OPENAI_API_KEY='[redacted]'"),
        ("x-api-key: abcdef123", "x-api-key: [redacted]"),
        ("?access_token=abcdef&x=1", "?access_token=[redacted]&x=1"),
        ("password = correct-horse", "password = [redacted]"),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nb",
            "a\n[redacted]\nb",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl cut off", "[redacted]"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK----- b", "[redacted] b"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_logs(text, expected):
    redactor = Redactor()
    assert redactor.redact_log(text) == expected
    assert redactor.looks_secret(text)
    assert redactor.redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "max_token=100000 used, total_tokens: 123456",
        "the task-list of risk-management-and-everything",
        "a bearer of bad news; basic things",
        "git commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "https://host:8080/path@v1",
        "password:",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "sess_0123456789abcdef0123456789abcdef",
        "",
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    redactor = Redactor([KEY])
    assert redactor.redact_log(text) == text
    assert not redactor.looks_secret(text)


def test_a_known_key_looks_secret_whatever_its_form():
    assert Redactor(["correct horse"]).looks_secret("the correct horse did it")
    assert Redactor(["correct horse"]).redact_log("the correct horse did it") == "the [redacted] did it"


def test_taking_out_twice_changes_nothing_more():
    redactor = Redactor([KEY])
    for text in (f"api_key={KEY}", f"Bearer {KEY}", f"https://u:{KEY}@h"):
        once = redactor.redact_log(text)
        assert redactor.redact_log(once) == once
        assert PLACEHOLDER in once


@pytest.mark.parametrize(
    "piece",
    [
        "api_key",
        "-----BEGIN PRIVATE KEY-----",
        "://",
        "://a:",
        "bearer ",
        "eyJ" + "a" * 8 + ".",
        "sk-",
        "a",
        " ",
        "token='",
    ],
)
def test_time_is_linear_in_the_text(piece):
    redactor = Redactor()

    def seconds(size):
        text = piece * (size // len(piece))
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            redactor.redact_log(text)
            best = min(best, time.process_time() - start)
        return best

    small, large = seconds(10_000), seconds(80_000)
    # Linear is 8 times, quadratic 64. The floor keeps a coarse clock out of it.
    assert large < 24 * max(small, 0.001)


@given(st.text("ab", min_size=6, max_size=8), st.lists(st.text("abc", max_size=9), max_size=8))
def test_a_stream_gives_what_the_whole_text_would(secret, pieces):
    redactor = Redactor([secret])
    stream = StreamRedactor(redactor)
    given_out = [stream.feed(piece) for piece in pieces]
    result = "".join(given_out) + stream.flush()
    assert secret not in result
    assert result == redactor.redact("".join(pieces))


def test_a_stream_holds_back_only_what_may_become_a_key():
    stream = StreamRedactor(Redactor([KEY]))
    assert stream.feed("hello sk") == "hello "
    assert stream.feed("y") == "sky"
    assert stream.feed(f"and {KEY[:10]}") == "and "
    assert stream.feed(KEY[10:] + "!") == "[redacted]!"
    assert stream.feed("sk-li") == ""
    assert stream.flush() == "sk-li"
    assert stream.flush() == ""


def test_a_stream_without_keys_hands_the_very_text_on():
    text = "sk-live"
    assert StreamRedactor(Redactor()).feed(text) is text


@given(st.integers(0, 30), st.integers(0, len(KEY)), st.sampled_from(["", "!", "s", KEY]))
def test_a_stream_takes_out_a_cut_key_wherever_it_is_split(split, length, after):
    redactor = Redactor([KEY])
    text = f"a {KEY[:length]}{after}"
    stream = StreamRedactor(redactor)
    assert stream.feed(text[:split]) + stream.feed(text[split:]) + stream.flush() == redactor.redact(text)


@given(st.binary(max_size=60), st.lists(st.integers(1, 7), max_size=20))
def test_a_key_in_bytes_is_taken_out_however_they_are_cut(noise, cuts):
    key = "sk-gehéim-0123456789"
    data = noise + key.encode() + noise
    stream = ByteStreamRedactor(Redactor([key]))
    handed_on = b""
    rest = data
    for cut in cuts:
        handed_on += stream.feed(rest[:cut])
        rest = rest[cut:]
    handed_on += stream.feed(rest) + stream.flush()
    assert key.encode() not in handed_on
    assert handed_on == Redactor([key]).redact_bytes(data)
    assert PLACEHOLDER.encode() in handed_on


def test_bytes_without_keys_are_the_same_object():
    data = b"\xff\0 anything"
    assert ByteStreamRedactor(Redactor()).feed(data) is data
    assert Redactor().redact_bytes(data) is data


def test_the_escape_of_a_keys_first_letter_goes_with_it():
    """A backslash that is left would escape what comes behind it, and the arguments would be no JSON."""
    assert Redactor(['"aaaaa']).redact('{"x":"\\"aaaaa"}') == '{"x":"[redacted]"}'
    assert Redactor(["/aaaaa"]).redact('{"x":"\\/aaaaa"}') == '{"x":"[redacted]"}'
