"""A session whose every text is hostile: escape sequences, letters that reorder others or have no width, lone
surrogates, lines of a megabyte, fences, headings and HTML.

On a terminal and elsewhere nothing of it acts: what is written, but for the colours that we set, is letters
with a shape, spaces and line ends. In an exported document it is text in fences: a parser of Markdown finds
no heading, link, picture or HTML of its making.
"""

import json

import pytest
from markdown_it import MarkdownIt

from term2_acp.cli.pieces import Look, Piece, shown
from term2_acp.cli.screen import Screen
from term2_acp.cli.terminal import visible, visible_lines
from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, Operation, ResourceLink, Terminal, Text
from term2_acp.domain.ids import CompactionId, MessageId, PlanId, TerminalId, ToolCallId
from term2_acp.domain.plan import PlanEntry, PlanPriority, PlanStatus
from term2_acp.domain.toolcall import DecidedBy, Effect, Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import StopReason

SCREENS = {"elsewhere": Screen(), "terminal": Screen(60, colours=True), "no colours": Screen(60)}

ACTS = (
    "\x1b]0;title\x07 \x1b[2J \x9b31m \x7f \x00 \x08 \x0b \x0c \r \x85 "
    "\u2028 \u202e \u2066 \u200b \ufeff \ud800 \udcff"
)
MARKS = (
    "# Forged\n\n````\n```text\n</details><script>x</script> <b>&#x202e;</b> ![p](http://e.test/p)\n"
    "[l](http://e.test) <http://e.test/%1b%5d0;t%07%9b2J>\n\n    code\n> quote `tick` ``` inline\n"
    "- - - item\n~~~\n\n| a | b |\n|---|---|\n| \x1b[1m | x |\n\n&#27; &#13;over\n"
)
EVIL = f"{ACTS}\n{MARKS}"
LONG = "x" * 1_000_000

CALL, TERMINAL = ToolCallId(f"call{ACTS}"), TerminalId("t")


def conversation(text):
    return [
        ev.UserMessage(MessageId("m"), (Text(text), ResourceLink(text, f"file:///{text}"))),
        ev.SessionInfoUpdate(text, "2026-11-30T10:00:00.000Z"),
        ev.AgentThoughtChunk(MessageId("t"), text),
        ev.AgentMessageChunk(MessageId("a"), text),
        ev.AgentMessage(MessageId("b"), text, spoken_by_model=False),
        ev.Circumstances(MessageId("m"), text, text, "0.1.0", 2, text, text, text, (text,)),
        ev.ToolCallPrepared(CALL, text, "{}", "p", "d"),
        ToolCallUpdate(CALL, text, text, ToolKind.EDIT, ToolStatus.PENDING, locations=(Location(text, 1),)),
        ev.ToolCallDecided(CALL, False, DecidedBy.PERSON, text, (text,), (text,), text, 1, text),
        ToolCallUpdate(
            CALL,
            content=(Text(text), Diff((Change(Operation.MOVE, text, text),), text), Terminal(TERMINAL)),
        ),
        ev.TerminalUpdate(TERMINAL, text, text),
        ev.TerminalOutput(TERMINAL, text.encode(errors="surrogatepass") + b"\xff\xfe\x9b2J"),
        ev.TerminalUpdate(TERMINAL, exit_status=ev.ExitStatus(None, text)),
        ev.ToolCallSettled(CALL, Effect.FAILED, text),
        ToolCallUpdate(CALL, status=ToolStatus.FAILED),
        ev.PlanUpdate(PlanId("p"), (PlanEntry(text, PlanPriority.LOW, PlanStatus.PENDING),)),
        ev.CompactionUpdate(CompactionId("c"), ev.CompactionStatus.COMPLETED, text),
        ev.CompactionUpdate(CompactionId("d"), ev.CompactionStatus.FAILED, error=text),
        ev.Idle(StopReason.END_TURN),
    ]


@pytest.fixture
def evil(kept):
    kept.add("sess_evil", events=conversation(EVIL), cwd=f"/w{ACTS}")
    return kept


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)
def test_nothing_of_a_session_acts_on_a_terminal(evil, plain, screen):
    for words in (["list"], ["show", "sess_evil"], ["audit", "sess_evil"]):
        code, text = evil.run(*words, screen=screen)
        assert code == 0
        stripped = plain(text)
        assert "\\x1b]0;title\\x07" in stripped.replace("\n", "")
        assert "\\u202e" in stripped
        assert "\\ud800" in stripped
        # Nothing is a line of its own that we did not make one: in a list, an audit and before an indent.
        assert "# Forged" not in stripped.split("\n")
        if not screen.colours:
            assert stripped == text


def test_an_exported_document_has_no_structure_but_ours(evil, plain):
    text = evil.says("export", "sess_evil", "--format", "markdown")
    assert plain(text) == text
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {token.type for token in [*tokens, *inline]}
    assert kinds <= {
        "heading_open", "heading_close", "inline", "bullet_list_open", "bullet_list_close",
        "list_item_open", "list_item_close", "paragraph_open", "paragraph_close", "fence", "text",
        "code_inline", "text_special",
    }  # fmt: skip
    headings = [tokens[n + 1].content for n, token in enumerate(tokens) if token.type == "heading_open"]
    kinds = [heading.split(",")[0] for heading in headings[1:]]
    assert kinds[:4] == ["Prompt", "Thought", "Answer", "term2"]
    assert kinds[5:] == ["Plan", "Compaction", "Compaction"]
    # What was said is all there, to be read.
    fences = [token.content for token in tokens if token.type == "fence"]
    assert all(any(visible(line) in fence for fence in fences) for line in MARKS.split("\n"))


def test_an_exported_journal_is_ascii_and_complete(evil):
    exported = evil.json("export", "sess_evil")
    assert exported["events"][3]["body"]["text"] == EVIL
    assert exported["session"]["cwd"] == f"/w{ACTS}"
    shown_ = evil.json("show", "sess_evil")["shown"]
    assert shown_[3]["body"]["text"] == EVIL
    assert evil.json("audit", "sess_evil")["audit"][0]["targets"] == [EVIL]
    assert json.loads(evil.says("list", "--json"))["sessions"][0]["title"] == EVIL


def test_a_line_of_a_megabyte_is_whole_elsewhere_and_folded_on_a_terminal(kept, plain):
    kept.add("s", events=[ev.AgentMessageChunk(MessageId("a"), LONG)])
    assert kept.says("show", "s").split("\n").count(f"  {LONG}") == 1
    folded = plain(kept.says("show", "s", screen=Screen(1000))).split("\n")
    assert max(map(len, folded)) == 1000
    lines = [line for line in folded if "x" in line]
    assert "".join(line.removeprefix("  ") for line in lines) == LONG
    assert {len(line) for line in lines[:-1]} == {1000}
    assert kept.says("export", "s", "--format", "markdown").split("\n").count(LONG) == 1


@pytest.mark.parametrize(
    ("text", "visibly"),
    [
        ("plain", "plain"),
        ("日本語 é 👍", "日本語 é 👍"),
        ("no\xa0break\u3000wide", "no\xa0break\u3000wide"),
        ("a\x1b[1mb\x07", "a\\x1b[1mb\\x07"),
        ("\u202eevil\u200b\ud800\udfff", "\\u202eevil\\u200b\\ud800\\udfff"),
        ("a\rb\u2028c\x85d", "a\\rb\\u2028c\\x85d"),
        ("tag\U000e0041", "tag\\U000e0041"),
    ],
)
def test_what_has_no_shape_is_written_out(text, visibly):
    assert visible(text) == visibly


def test_only_line_feeds_divide_lines():
    assert visible_lines("a\r\nb\rc\x0bd\u2028e\x85f\n\n\tg\n") == [
        "a",
        "b\\rc\\x0bd\\u2028e\\x85f",
        "",
        " " * 8 + "g",
    ]
    assert visible_lines("") == [""]


@pytest.mark.parametrize(
    ("source", "drawn"),
    [
        ("of `a` Vec<String> <b>x</b> &lt;", "of a Vec<String> <b>x</b> <"),
        ("[words](http://e.test/%1b)", "words (http://e.test/%1b)"),
        ("<http://e.test/%1b%5b2J>", "http://e.test/\\x1b[2J (http://e.test/%1b%5b2J)"),
        ("&#x202e;&#x200b;", "\\u202e\\u200b"),
        ("> " * 30 + "deep", "> " * 30 + "deep"),
    ],
)
def test_markdown_is_drawn_without_leaving_out_or_letting_through(source, drawn):
    text = shown([Piece(source, Look.MARKDOWN)], Screen(100))
    assert text == f"{drawn}\n"
