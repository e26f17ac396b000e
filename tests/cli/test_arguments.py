"""The arguments of ``term2 acp``: the table of what is taken and of what is refused, and with which words.

The parser is pure; that a refusal exits 1 and leaves standard output empty is in ``test_process``.
"""

import pytest

from term2_acp.cli.arguments import Arguments, BadArguments, parse

TAKEN = [
    ([], Arguments()),
    (["--provider", "lab"], Arguments(provider="lab")),
    (["--provider=lab"], Arguments(provider="lab")),
    (["--model", "lab/qwen3-coder"], Arguments(model="lab/qwen3-coder")),
    (["--model=a=b"], Arguments(model="a=b")),
    (["--model=-odd"], Arguments(model="-odd")),
    (["--model", "two words"], Arguments(model="two words")),
    (["--effort", "xhigh"], Arguments(effort="xhigh")),
    (
        ["--effort=none", "--model", "m", "--provider=p"],
        Arguments(provider="p", model="m", effort="none"),
    ),
]

REFUSED = [
    (["--auto-approve"], "unknown option --auto-approve"),
    (["--auto-approve", "--nonsense"], "unknown option --auto-approve"),
    (["--yolo"], "unknown option --yolo"),
    (["--unsandboxed=1"], "unknown option --unsandboxed"),
    (["--dangerously-skip-permissions"], "unknown option --dangerously-skip-permissions"),
    (["--api-key=sk-secret"], "unknown option --api-key"),
    (["--help"], "unknown option --help"),
    (["-h"], "unknown option -h"),
    (["--"], "unknown option --"),
    (["-"], "unknown option -"),
    (["--mod", "x"], "unknown option --mod"),
    (["--Model", "x"], "unknown option --Model"),
    (["-m", "x"], "unknown option -m"),
    (["stray"], "unexpected argument 'stray'"),
    ([""], "unexpected argument ''"),
    (["--model", "x", "stray"], "unexpected argument 'stray'"),
    (["--model"], "--model needs a value"),
    (["--model="], "--model needs a value"),
    (["--model", ""], "--model needs a value"),
    (["--model", "--effort", "high"], "--model needs a value"),
    (["--provider", "--auto-approve"], "--provider needs a value"),
    (["--model", "a", "--model", "b"], "--model is given twice"),
    (["--model", "a", "--model=a"], "--model is given twice"),
    (["--effort", "high", "--effort"], "--effort is given twice"),
]


@pytest.mark.parametrize(("words", "arguments"), TAKEN)
def test_taken(words, arguments):
    assert parse(words) == arguments


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_refused(words, message):
    with pytest.raises(BadArguments) as caught:
        parse(words)
    assert str(caught.value) == message


def test_a_long_word_is_not_repeated_whole():
    with pytest.raises(BadArguments) as caught:
        parse(["x" * 100_000])
    assert len(str(caught.value)) < 120
