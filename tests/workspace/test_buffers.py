"""A workspace whose files an editor has open: which text counts as saved, what a saving leaves alone, and
that nothing is staged for the disk over what is not saved, whoever asks."""

import pytest

from term2_acp.workspace import FileContent, Unsaved, Workspace, text_of
from term2_acp.workspace.buffers import gist_of, is_clean
from term2_acp.workspace.replace import Edit
from tests.kit.editor_files import EditorWithFiles


@pytest.mark.parametrize(
    ("saved", "shown", "clean"),
    [
        (b"", "", True),
        (b"", "\n", True),
        (b"a\r\nb\r\n", "a\nb\n", True),
        (b"a\r\nb\n", "a\nb\n", True),
        (b"a\rb\r", "a\nb\n", True),
        (b"a\nb\n", "a\r\nb\r\n", True),
        (b"a\n", "a", True),
        (b"a", "a\n", True),
        (b"\xef\xbb\xbfa\n", "a\n", True),
        (b"\xef\xbb\xbfa\n", "\ufeffa\n", True),
        (b"a\n", "\ufeffa\n", False),
        (b"a\n", "a\n\n", False),
        (b"a\n", "a \n", False),
        (b"a\n", "", False),
        (b"a\nb\n", "b\na\n", False),
    ],
)
def test_only_line_ends_do_not_count(saved, shown, clean):
    assert is_clean(text_of(saved), shown) is clean


def test_a_gist_is_what_a_saving_leaves_alone():
    text = "a  \n\tb\n\nc"
    for saved in ("a\n\tb\n\nc\n", "a  \r\n\tb\r\n\r\nc", "a\n\tb\n \t\nc\n\n"):
        assert gist_of(saved) == gist_of(text)
    for other in ("a\nb\n\nc", "a\n\tb\nc", "a\n\tb\n\nC", "", "a\n\tb\n\n\x0cc"):
        assert gist_of(other) != gist_of(text)


async def test_nothing_is_staged_for_the_disk_over_what_is_not_saved(tmp_path):
    root = tmp_path.resolve()
    (root / "a").write_text("one\n")
    editor = EditorWithFiles()
    editor.buffers[str(root / "a")] = "one, typed\n"
    files = Workspace(str(root), home=None, editor=editor.files(root, writes=False))
    target = files.resolve("a")
    old = await files.load(target)
    assert (old.data, old.unsaved) == (b"one, typed\n", True)
    for new in (FileContent.of(b"two\n"), None):
        with pytest.raises(Unsaved):
            await files.stage_all([Edit(target, new, old)])
    assert [path.name for path in root.iterdir()] == ["a"]
