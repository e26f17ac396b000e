"""File-name patterns: what they match, what is refused, and that no pattern is slow."""

import time

import pytest

from term2_acp.workspace import PatternRefused, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/b"]),
        ("a.py", ["a.py", "x/a.py"], ["xa.py"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/a.py", "src/x/y/a.py"], ["a.py", "srcx/a.py"]),
        ("**/test_*.py", ["test_a.py", "x/test_a.py"], ["x/a.py"]),
        ("**/a/**/b", ["a/b", "x/a/y/z/b"], ["a", "b", "ab"]),
        ("src/**", ["src/a", "src/x/y"], ["a", "srcx/a"]),
        ("**", ["a", "x/y"], []),
        ("**/*", ["a", "x/y"], []),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.t", "a.tsxx"]),
        ("{src,lib/x}/*.c", ["src/a.c", "lib/x/a.c"], ["lib/a.c"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "bcd"]),
        ("{a}", ["{a}"], ["a"]),
        ("[ab]?.txt", ["ax.txt"], ["cx.txt", "a.txt"]),
        ("[!a].txt", ["b.txt"], ["a.txt"]),
        ("./src//a.c", ["src/a.c"], ["a.c"]),
        ("a+(b).$", ["a+(b).$"], ["aab"]),
        ("A.py", ["A.py"], ["a.py"]),
        (".*", [".env", "x/.env"], ["a"]),
        ("a\nb", ["a\nb"], ["a"]),
    ],
)
def test_what_matches(pattern, yes, no):
    compiled = compile_pattern(pattern)
    assert [path for path in yes if not compiled.matches(path)] == []
    assert [path for path in no if compiled.matches(path)] == []


@pytest.mark.parametrize("pattern", ["", "/etc/*", "~/x", "!x", "../x", "a/../b", "x" * 1001, "{a,b}" * 7])
def test_what_is_refused(pattern):
    with pytest.raises(PatternRefused):
        compile_pattern(pattern)


def test_no_pattern_is_slow():
    began = time.process_time()
    assert not compile_pattern("*a" * 100 + "b").matches("a" * 255)
    assert not compile_pattern("**/a/" * 50 + "b").matches("a/" * 2000 + "c")
    assert time.process_time() - began < 1


def test_the_last_names_are_necessary_for_a_match():
    assert compile_pattern("src/**/*.{c,h}").names == ("*.h", "*.c")
    assert compile_pattern("src/**").names == ("*",)
