"""The text of a page: what a model is given of the things that pages are made of, as a function; and the
child that makes it, with its bounds, and gone when it is cancelled."""

import os
import time

import pytest
import trio
import trio.testing

from term2_acp.tools import page
from term2_acp.tools.base import ToolError
from term2_acp.tools.page import Cut, cut, text_of
from term2_acp.tools.page_child import to_text
from tests.kit.processes import alive, descendants

HERE = "https://example.org/dir/page"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        # words
        ("a  b\n\tc", "a b c"),
        ("<b>a</b>b <i> c</i>", "ab c"),
        ("snake_case *x* [y] &lt;tag&gt; &amp; `z`", "snake_case *x* [y] <tag> & `z`"),
        ("a&nbsp;b", "a\xa0b"),
        ("<p>a</p><p>b<br>c</p>", "a\n\nb\nc"),
        ("<div>a</div><div>b</div>", "a\nb"),
        ("<h1>A</h1>b<h3>C</h3>", "# A\n\nb\n\n### C"),
        ("a<hr>b", "a\n\nb"),
        ("<dl><dt>a<dd>b</dl>c", "a\nb\n\nc"),
        # what is not seen
        ("<script>x()</script><style>b{}</style><nav>menu</nav>a<svg><text>b</text></svg>", "a"),
        ("<p hidden>no</p><p style='color: red; display : none'>no</p><i aria-hidden=true>no</i>a", "a"),
        ("<template><p>no</p></template><select><option>no</select><!-- no --><iframe>no</iframe>a", "a"),
        ("<noscript>needs <b>scripts</b></noscript>", "needs scripts"),
        ("<head><title>A\n title</title></head><p>b", "Title: A title\n\nb"),
        ("<img src=x alt='a  picture'><img src=y alt=''><img src=z>", "[image: a picture]"),
        # code
        ("use <code>a_b  <b>c</b></code>, then", "use `a_b c`, then"),
        (
            "<pre><code>\ndef f():\n\n    return 1 &lt; 2\n</code></pre>",
            "```\ndef f():\n\n    return 1 < 2\n```",
        ),
        ("<pre>a\n```\nb</pre>", "````\na\n```\nb\n````"),
        ("a<pre>  b</pre>c", "a\n\n```\n  b\n```\n\nc"),
        # lists and quotations
        ("<ul><li>a<li><p>b</p><p>c</p></ul>d", "- a\n- b\n\n  c\n\nd"),
        ("<ol><li>a<ul><li>b<li>c</ul><li>d</ol>", "1. a\n   - b\n   - c\n2. d"),
        ("<ol>" + "<li>x" * 11 + "</ol>", "\n".join(f"{n}. x" for n in range(1, 12))),
        ("<ul><li></li><li>a</ul>", "- a"),
        ("<ul><li><pre>x\ny</pre></ul>", "- ```\n  x\n  y\n  ```"),
        ("<blockquote><p>a<p>b<br>c</blockquote>d", "> a\n\n> b\n> c\n\nd"),
        # tables
        ("<table><tr><th>A<th>B<tr><td>1<td><p>x<p>y<tr><td><td>2</table>z", "A | B\n1 | x y\n | 2\n\nz"),
        ("<table><tr><td>a<td><table><tr><td>b<td>c</table><td>d</table>", "a |\nb | c\n | d"),
        ("<table><tr><td> <td></table>a", "a"),
        ("x<table><tr><td> <td></table>a", "x\n\na"),
        ("<table><tr><td>x<pre>a\nb</pre><td>y</table>", "x\n\n```\na\nb\n```\n\n | y"),
        # links
        ("<a href='/x?a=1&amp;b=2'>a</a>", "[a](https://example.org/x?a=1&b=2)"),
        ("see <a href=b>the <b>b</b></a>, c", "see [the b](https://example.org/dir/b), c"),
        ("<a href=//e.org><img alt=i></a>", "[[image: i]](https://e.org)"),
        ("<a href=x></a><a href=y> </a>a", "a"),
        ("<a href='#s'>part</a><h2>T<a href='#t'>¶</a></h2>", "part\n\n## T"),
        (
            "<a href='javascript:x()'>a</a> <a href=mailto:x>b</a> <a href='http://['>c</a> <a>d</a>",
            "a b c d",
        ),
        ("<a href=/card><h3>T</h3><p>w</p></a>x", "### T\n\nw (https://example.org/card)\n\nx"),
        ("<a href=/card><h3>T</h3>w</a>", "### T\n\nw (https://example.org/card)"),
        ("<ul><li><a href=/a>a</a></ul>", "- [a](https://example.org/a)"),
        ("<base href='https://cdn.example/q/'><a href=a>a</a>", "[a](https://cdn.example/q/a)"),
        ("<a href='a b\nc'>a</a>", "[a](https://example.org/dir/a%20bc)"),
        ("", ""),
    ],
)
def test_what_reads_best(html: str, text: str) -> None:
    assert to_text(html, HERE) == text


def test_depth_is_no_recursion_and_does_not_grow_the_text_by_its_square() -> None:
    text = to_text("<ul><li>a" * 3000, HERE)
    assert text.count("a") == 3000
    assert len(text) < 3000 * 60
    assert to_text("<div><b>" * 10_000 + "a", HERE) == "a"


def test_a_long_fence_in_code_is_answered_by_a_longer_one_at_once() -> None:
    inner = "`" * 500_000
    began = time.process_time()
    text = to_text(f"<pre>{inner}</pre>", HERE)
    assert time.process_time() - began < 2
    assert text == f"`{inner}\n{inner}\n`{inner}"


@pytest.mark.parametrize("size", [page.MAX_BYTES - 1, page.MAX_BYTES])
def test_a_text_within_the_bound_is_whole(size: int) -> None:
    assert cut(b"x" * size) == Cut("x" * size, 0)


def test_a_text_is_cut_between_characters() -> None:
    text = ("x" + "€" * page.MAX_BYTES).encode()
    found = cut(text)
    assert found.text == "x" + "€" * ((page.MAX_BYTES - 1) // 3)
    assert found.left_out == len(text) - len(found.text.encode())


async def test_the_child_makes_the_text() -> None:
    html = "<title>Grüße</title><p>a <a href=b>€ \U0001f600</a>"
    assert await text_of(html, HERE) == Cut("Title: Grüße\n\na [€ \U0001f600](https://example.org/dir/b)", 0)


async def test_a_long_page_is_cut_and_the_rest_counted() -> None:
    found = await text_of("<p>" + "€" * 20_000, HERE)
    assert found == Cut("€" * (page.MAX_BYTES // 3), 60_000 - page.MAX_BYTES)


async def test_no_more_of_a_page_is_read_than_the_bound() -> None:
    found = await text_of("x" * (page.MAX_PAGE + 5000), HERE)
    assert found.left_out == page.MAX_PAGE - page.MAX_BYTES


async def test_the_child_has_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "hush")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(text_of, "<div>" * 200_000, HERE)
        (child,) = await children()
        environment = await trio.Path(f"/proc/{child.pid}/environ").read_bytes()
        names = {entry.partition(b"=")[0] for entry in environment.split(b"\0") if entry}
        nursery.cancel_scope.cancel()
    assert names <= {b"PYTHONPATH", b"LC_CTYPE"}


async def children():
    """Wait until the child that makes text is there."""
    while True:
        found = [each for each in descendants(os.getpid()) if "page_child" in each.command]
        if found:
            return found
        await trio.lowlevel.checkpoint()


async def test_a_cancel_kills_the_child() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(text_of, "<div>" * 300_000, HERE)
        found = await children()
        nursery.cancel_scope.cancel()
    assert alive(found) == []


async def test_the_child_has_so_long(mock_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def wait() -> None:
            found[:] = await children()
            mock_clock.jump(page.TEXT_S + 1)

        found: list = []
        with pytest.raises(ToolError, match="within 30 seconds"):
            await text_of("<div>" * 300_000, HERE)
    assert alive(found) == []


async def test_a_page_that_grows_without_end_is_left() -> None:
    # Links of 15 characters that become ones of 1,900.
    html = f"<base href='http://e/{'q' * 1900}/'>" + "<a href=z>b</a>" * 4500
    with pytest.raises(ToolError, match="more than 8,388,608 bytes"):
        await text_of(html, HERE)


async def test_a_page_that_needs_too_much_memory_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ToolError, match="too much memory"):
        await text_of("<p>x" * 40_000, HERE, max_memory=24 * 1024 * 1024)
    assert "MemoryError" in caplog.text
