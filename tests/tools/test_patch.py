"""Git patches: true by Git's own reading of them, shaped as ACP wants them, and made in bounded time."""

import itertools
import random
import subprocess
import time

import pytest

from term2_acp.tools.patch import changes, git_patch

TEXTS = [
    "",
    "a\n",
    "a",
    "a\nb\nc\n",
    "a\nB\nc\n",
    "a\nb\nc",
    "b\nc\nd\n",
    "a\r\nb\r\nc\r\n",
    "a\rb\u2028c\x0cd\n",
    "".join(f"line {number}\n" for number in range(60)),
    "".join(f"line {number}\n" for number in range(60) if number not in (3, 30, 31, 59)),
    "".join(f"line {number}\n" + ("new\n" * (number % 20 == 0)) for number in range(60)),
    "x\n" * 40,
    "x\n" * 30,
]


def applied(folder, patch):
    """What ``git apply`` makes of the patch, with the whole file system as its tree."""
    result = subprocess.run(
        ["git", "apply", "--unsafe-paths", "-p1", "--directory=/", "--whitespace=nowarn", "-"],
        input=patch.encode(),
        cwd=folder,
        capture_output=True,
    )
    assert result.returncode == 0, (result.stderr.decode(), patch)


def test_a_modification():
    assert git_patch("/a/b.py", "one\ntwo\nthree\n", "one\n2\nthree\n") == (
        "diff --git /a/b.py /a/b.py\n--- /a/b.py\n+++ /a/b.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    )


def test_a_new_file():
    assert git_patch("/a/b", None, "one\ntwo") == (
        "diff --git /a/b /a/b\n"
        "new file mode 100644\n"
        "--- /dev/null\n"
        "+++ /a/b\n"
        "@@ -0,0 +1,2 @@\n"
        "+one\n"
        "+two\n"
        "\\ No newline at end of file\n"
    )
    assert git_patch("/a/b", None, "") == "diff --git /a/b /a/b\nnew file mode 100644\n"


def test_changes_that_lie_apart_are_hunks_of_their_own():
    old = "".join(f"{number}\n" for number in range(1, 31))
    patch = git_patch("/f", old, old.replace("2\n3\n", "2\n", 1).replace("\n28\n", "\n28\nnew\n"))
    assert [line for line in patch.split("\n") if line.startswith("@@")] == [
        "@@ -1,6 +1,5 @@",
        "@@ -26,5 +25,6 @@",
    ]


def test_odd_names_are_written_as_git_writes_them():
    assert '+++ "/a\\"b\\\\c\\n\\t\\001"\n' in git_patch('/a"b\\c\n\t\x01', "a\n", "b\n")
    assert "+++ /a b\t\n" in git_patch("/a b", "a\n", "b\n")
    assert "+++ /é\n" in git_patch("/é", "a\n", "b\n")


@pytest.mark.parametrize("name", ["plain", "with space", 'quo"te', "new\nline", "é\u202e"])
def test_git_applies_them(tmp_path, name):
    path = tmp_path.resolve() / name
    for old, new in itertools.permutations(TEXTS, 2):
        if name != "plain" and (old, new) != (TEXTS[3], TEXTS[4]):
            continue
        path.write_bytes(old.encode())
        applied(tmp_path, git_patch(str(path), old, new))
        assert path.read_bytes() == new.encode()
    path.unlink()
    applied(tmp_path, git_patch(str(path), None, TEXTS[5]))
    assert path.read_bytes() == TEXTS[5].encode()


def rebuilt(old, new):
    at, out = 0, []
    for change in changes(old, new):
        assert change.a >= at
        out += old[at : change.a] + new[change.c : change.d]
        assert len(out) == change.d
        at = change.b
    return out + old[at:]


def test_random_edits_are_rebuilt():
    random.seed(5)
    for size in (5, 30, 300):
        for _ in range(60):
            old = [str(random.randrange(size)) for _ in range(size)]
            new = [line for line in old if random.random() > 0.2]
            for _ in range(size // 5):
                new.insert(random.randrange(len(new) + 1), str(random.randrange(size)))
            assert rebuilt(old, new) == new


def test_a_small_change_makes_a_small_patch():
    old = [f"line {number}" for number in range(5000)]
    new = [*old[:100], "x", *old[100:2000], *old[2003:4000], "y", *old[4001:]]
    assert [(c.b - c.a, c.d - c.c) for c in changes(old, new)] == [(0, 1), (3, 0), (1, 1)]


@pytest.mark.parametrize("shape", ["alternating", "no line alike", "few kinds", "reversed", "two of each"])
def test_no_texts_make_it_slow(shape):
    count = 20_000
    old = [f"line {number}" for number in range(count)]
    if shape == "alternating":
        new = [line if number % 2 else line + "!" for number, line in enumerate(old)]
    elif shape == "no line alike":
        new = [line + "!" for line in old]
    elif shape == "few kinds":
        random.seed(6)
        old = [random.choice("abc") for _ in range(count)]
        new = [random.choice("abc") for _ in range(count)]
    elif shape == "reversed":
        new = old[::-1]
    else:
        old = [f"line {number // 2}" for number in range(count)]
        new = old[1::2] + old[::2]
    began = time.process_time()
    assert rebuilt(old, new) == new
    assert time.process_time() - began < 4
