"""Reading patches: both shapes as models write them, what is forgiven, and what each refusal says."""

import attrs
import pytest

from term2_acp.tools.base import ToolError
from term2_acp.tools.patch_format import MAX_FILES, MAX_HUNKS, parse
from term2_acp.tools.patch_parts import AddFile, DeleteFile, Hunk, UpdateFile

ENVELOPE = """\
*** Begin Patch
*** Add File: new.py
+one
+
+  two
*** Update File: a b.py
*** Move to: sub/b.py
@@ class A:
@@     def f(self):
 context
-old
+new

 more
*** Delete File: gone.py
*** Update File: c.py
-x
+y
@@
 z
+end
*** End of File
*** End Patch
"""

ENVELOPE_SAYS = [
    AddFile(2, "new.py", "one\n\n  two\n"),
    UpdateFile(
        6,
        "a b.py",
        (
            Hunk(
                8,
                ((" ", "context"), ("-", "old"), ("+", "new"), (" ", ""), (" ", "more")),
                ("class A:", "    def f(self):"),
            ),
        ),
        "sub/b.py",
    ),
    DeleteFile(15, "gone.py"),
    UpdateFile(
        16,
        "c.py",
        (
            Hunk(17, (("-", "x"), ("+", "y"))),
            Hunk(19, ((" ", "z"), ("+", "end")), at_end=True),
        ),
    ),
]

GIT = """\
diff --git a/a.py b/a.py
index 1234567..89abcde 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@ def f():
 one
-two
+2
 three
@@ -20,2 +20,1 @@
 x
-y
diff --git a/new.py b/new.py
new file mode 100644
index 0000000..89abcde
--- /dev/null
+++ b/new.py
@@ -0,0 +1,2 @@
+one
+two
\\ No newline at end of file
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
diff --git a/gone.py b/gone.py
deleted file mode 100755
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/old name.py b/sub/new name.py
similarity index 90%
rename from old name.py
rename to sub/new name.py
--- a/old name.py\t
+++ b/sub/new name.py\t
@@ -1 +1 @@
-x
+y
diff --git a/p b/q
similarity index 100%
rename from p
rename to q
"""

GIT_SAYS = [
    UpdateFile(
        1,
        "a.py",
        (
            Hunk(5, ((" ", "one"), ("-", "two"), ("+", "2"), (" ", "three")), hint=1),
            Hunk(10, ((" ", "x"), ("-", "y")), hint=20),
        ),
    ),
    AddFile(13, "new.py", "one\ntwo"),
    AddFile(22, "empty", ""),
    DeleteFile(25, "gone.py", (Hunk(29, (("-", "x"),), hint=1),)),
    UpdateFile(31, "old name.py", (Hunk(37, (("-", "x"), ("+", "y")), hint=1),), "sub/new name.py"),
    UpdateFile(40, "p", (), "q"),
]


def test_an_envelope():
    assert parse(ENVELOPE) == ENVELOPE_SAYS


def test_a_git_diff():
    assert parse(GIT) == GIT_SAYS


def shifted(says, by):
    """The same with all line numbers moved."""
    return [
        attrs.evolve(
            one,
            at=one.at + by,
            **(
                {}
                if isinstance(one, AddFile)
                else {"hunks": tuple(attrs.evolve(hunk, at=hunk.at + by) for hunk in one.hunks)}
            ),
        )
        for one in says
    ]


@pytest.mark.parametrize(
    ("before", "after", "by"),
    [
        ("\n\n  \n", "\n\n", 3),
        ("```\n", "```", 1),
        ("```diff\n", "```\n\n", 1),
        ("\n```patch\n\n", "\n```\n", 3),
        ("apply_patch <<'EOF'\n", "EOF\n", 1),
        ("<<EOF\n", "EOF", 1),
        ('git apply <<-"PATCH_1"\n', "PATCH_1\n", 1),
        ("```bash\napply_patch << 'EOF'\n", "EOF\n```\n", 2),
    ],
)
@pytest.mark.parametrize(("patch", "says"), [(ENVELOPE, ENVELOPE_SAYS), (GIT, GIT_SAYS)])
def test_what_is_wrapped_around_is_taken_off_and_lines_keep_their_numbers(patch, says, before, after, by):
    assert parse(before + patch + after) == shifted(says, by)


@pytest.mark.parametrize(("patch", "says"), [(ENVELOPE, ENVELOPE_SAYS), (GIT, GIT_SAYS)])
def test_line_ends_of_the_patch_itself_and_a_missing_last_one_say_nothing(patch, says):
    assert parse(patch.removesuffix("\n")) == says
    assert parse(patch.replace("\n", "\r\n")) == says
    assert parse(patch.removesuffix("\n").replace("\n", "\r\n")) == says


def test_where_only_some_lines_end_in_cr_it_is_a_character():
    (says,) = parse("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\n")
    assert says.hunks[0].lines == ((" ", "a\r"), ("-", "b\r"), ("+", "c"))
    (says,) = parse("*** Begin Patch\n*** Add File: x\n+a\r\n*** End Patch\r\n")
    assert says == AddFile(2, "x", "a\r\n")


@pytest.mark.parametrize(
    ("head", "path"),
    [
        ("--- a/x/y.py\n+++ b/x/y.py\n", "x/y.py"),
        ("--- x/y.py\n+++ x/y.py\n", "x/y.py"),
        ("--- /ws/y.py\n+++ /ws/y.py\n", "/ws/y.py"),
        ("diff --git /ws/y.py /ws/y.py\n--- /ws/y.py\n+++ /ws/y.py\n", "/ws/y.py"),
        ("--- a/y.py\t2026-01-01 10:00:00\n+++ b/y.py\t2026-01-01 10:00:01\n", "y.py"),
        ('--- "a/\\303\\251 \\"\\\\\\t.py"\n+++ "b/\\303\\251 \\"\\\\\\t.py"\n', 'é "\\\t.py'),
        ("--- a/a/b.py\n+++ b/a/b.py\n", "a/b.py"),
        ("--- a/b.py\n+++ a/b.py\n", "a/b.py"),
    ],
)
def test_the_names_of_a_diff(head, path):
    (says,) = parse(head + "@@ -1 +1 @@\n-a\n+b\n")
    assert (says.path, says.to) == (path, None)


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "x"),
        ("--- /dev/null\n+++ x\n@@ -0,0 +1 @@\n+a\n", "x"),
        ("diff --git b/x b/x\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "b/x"),
        ("diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "x"),
    ],
)
def test_the_name_of_a_new_file(patch, path):
    assert parse(patch) == [AddFile(1, path, "a\n")]


def test_counts_of_a_hunk_may_be_wrong():
    (one, two) = parse(
        "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1,1 +1,7 @@\n-c\n+d\n"
    )
    assert one.hunks[0].lines == (("-", "a"), ("+", "b"))
    assert (two.path, two.hunks[0].lines) == ("y", (("-", "c"), ("+", "d")))


def test_lines_that_look_like_a_header_are_lines_where_the_counts_say_so():
    hunk = "@@ -1,2 +1,2 @@\n a\n--- x\n+++ y\n@@ -9,1 +9,1 @@\n-b\n+c\n"
    (says,) = parse("--- a/x\n+++ b/x\n" + hunk)
    assert says.hunks[0].lines == ((" ", "a"), ("-", "-- x"), ("+", "++ y"))
    assert says.hunks[1].hint == 9
    (says,) = parse("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n--- x\n+++ y\n b\n")
    assert says.hunks[0].new == ["a", "++ y", "b"]


def test_numbers_in_an_envelope_are_a_hint():
    (says,) = parse("*** Begin Patch\n*** Update File: x\n@@ -12,3 +12,3 @@ def f():\n-a\n+b\n*** End Patch")
    assert (says.hunks[0].hint, says.hunks[0].anchors) == (12, ())
    (says,) = parse("*** Begin Patch\n*** Update File: x\n@@ def f(): @@\n-a\n+b\n*** End Patch")
    assert (says.hunks[0].hint, says.hunks[0].anchors) == (None, ("def f():",))


def test_blank_lines_after_a_hunk_are_not_its_own():
    (one, two) = parse(
        "*** Begin Patch\n*** Add File: n\n+a\n\n+b\n\n\n"
        "*** Update File: x\n\n@@\n-a\n+b\n\n*** End Patch\n\n"
    )
    assert one.text == "a\n\nb\n"
    assert two.hunks[0].lines == (("-", "a"), ("+", "b"))


def envelope(*lines):
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (" \n", "The patch is empty"),
        ("```\n```\n", "The patch is empty"),
        ("hello\n", "Line 1 .* found 'hello'"),
        ("*** Update File: x\n", "Line 1 .* expected `\\*\\*\\* Begin Patch`"),
        (
            "*** Begin Patch\n*** Add File: x\n+a\n",
            "Line 4 .* expected .*`\\*\\*\\* End Patch`; found the end",
        ),
        ("*** Begin Patch\n*** Update File: x\n@@\n-a\n+b", "Line 6 .*found the end of the patch"),
        (envelope(), "names no file"),
        (envelope("*** Add File:", "+a"), "Line 2 .* expected a path after `\\*\\*\\* Add File:`"),
        (envelope("*** Add File: x", "a"), "Line 3 .* new file, which begins with `\\+`; found 'a'"),
        (envelope("*** Add File: x", "+a", "-b"), "Line 4 .* begins with `\\+`; found '-b'"),
        (envelope("*** Rename File: x"), "Line 2 .*found '\\*\\*\\* Rename File: x'"),
        (envelope("*** Update File: x"), "Line 3 .*expected a hunk for x; found '\\*\\*\\* End Patch'"),
        (envelope("*** Update File: x", "@@"), "hunk at line 3 of the patch has no lines"),
        (envelope("*** Update File: x", "@@", " a", " b"), "hunk at line 3 .* changes nothing"),
        (envelope("*** Update File: x", "@@", "-a", "+a"), "hunk at line 3 .* changes nothing"),
        (envelope("*** Update File: x", "@@", "-a", "oops"), "Line 5 .* a space, `-` or `\\+`; found 'oops'"),
        (envelope("*** Update File: x", "@@", "\t-a"), "Line 4 .*found '\\\\t-a'"),
        (envelope("*** Delete File: x", "-a"), "Line 3 .*found '-a'"),
        (envelope("*** Add File: x", "+a") + "\nthanks", "Line 5 .* expected nothing after .*found 'thanks'"),
        ("--- a/x\n", "Line 2 .* expected `\\+\\+\\+`"),
        ("--- a/x\n+++ b/x\n", "Line 3 .*expected a hunk for x"),
        ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "Line 1 .*the same file on both sides"),
        ("--- a/x\n+++ b/x\n@@ def f():\n-a\n", "Line 3 .*expected `@@ -LINE,COUNT"),
        ("--- /dev/null\n+++ /dev/null\n", "Line 1 .*expected the name of a file"),
        (
            "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n a\n",
            "line of a new file begins with `\\+`; found ' a'",
        ),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n a\n-b\n", "deleted begins with `-`; found ' a'"),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "Line 2 .*no change of mode"),
        ("diff --git a/x b/x\nnew file mode 100755\n", "Line 2 .*mode 100644"),
        ("diff --git a/x b/x\nnew file mode 120000\n", "Line 2 .*mode 100644"),
        ("diff --git a/x b/x\ndeleted file mode 120000\n", "Line 2 .*an ordinary file"),
        ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "Line 2 .*no copy"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "Line 2 .*a text file"),
        ("diff --git a/x b/x\nGIT binary patch\n", "Line 2 .*a text file"),
        ("diff --git a/x b/yy\nrename from x\n", "Line 1 .*`rename from` and `rename to`"),
        ("diff --git a/x b/y\nrename from x\nrename to y\n--- a/z\n+++ b/y\n", "Line 4 .*agrees .*'--- a/z'"),
        ("diff --git a/x b/x\nnew file mode 100644\n--- a/x\n+++ b/x\n", "Line 3 .*agrees"),
        ('--- "a/x\n+++ b/x\n', "Line 1 .*ends with the quote"),
        ('--- "a/\\377"\n+++ b/x\n', "Line 1 .*UTF-8"),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n-b\n",
            "Line 6 .*no line after the one",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n c\n",
            "Line 7 .*no line after the one",
        ),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n\\ No newline at end of file\n", "Line 4 .*a line of a hunk"),
    ],
)
def test_everything_else_is_refused_with_its_line(patch, words):
    with pytest.raises(ToolError, match=words):
        parse(patch)


def test_a_long_line_is_not_repeated_whole():
    with pytest.raises(ToolError) as caught:
        parse("x" * 5000)
    assert "and 4,900 more characters" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_the_size_of_a_patch_is_bounded():
    many = [f"*** Delete File: {number}" for number in range(MAX_FILES)]
    assert len(parse(envelope(*many))) == MAX_FILES
    with pytest.raises(ToolError, match="101 files and 0 hunks; at most 100 and 1,000"):
        parse(envelope(*many, "*** Delete File: x"))
    hunks = ["@@", "-a", "+b"] * (MAX_HUNKS + 1)
    with pytest.raises(ToolError, match="1 files and 1,001 hunks"):
        parse(envelope("*** Update File: x", *hunks))
