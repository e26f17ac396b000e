"""The editor's files as the v1 door reaches them: what is asked, by which name, and what each answer means.

The connection is played by a fake that answers in its own time; the values of its replies are the real ones.
"""

import pytest
import trio

from term2_acp.acp.v1.files import MAX_QUOTED, READ_S, WRITE_S
from term2_acp.transport.peer import Gone, MalformedReply
from term2_acp.workspace.editor import EditorLost, EditorRefused
from tests.kit.editor_files import READ, SESSION, WRITE, EditorWithFiles, refusal, result


@pytest.fixture
def root(tmp_path):
    root = tmp_path.resolve()
    (root / "ws").mkdir()
    (root / "ws/a").write_text("one\n")
    return root


@pytest.fixture
def editor():
    return EditorWithFiles()


async def test_each_is_one_request_with_the_whole_text(root, editor):
    files = editor.files(root / "ws")
    path = str(root / "ws/a")
    assert await files.read(path) == "one\n"
    await files.write(path, "é\r\n\u2028")
    assert editor.asked == [
        (READ, {"sessionId": SESSION, "path": path}),
        (WRITE, {"sessionId": SESSION, "path": path, "content": "é\r\n\u2028"}),
    ]
    assert (root / "ws/a").read_bytes() == "é\r\n\u2028".encode()


@pytest.mark.parametrize("named", ["link", "link/", "ws/../link/."])
async def test_a_client_is_asked_by_the_name_that_it_gave(root, editor, named):
    (root / "link").symlink_to("ws")
    named = f"{root}/{named}"
    files = editor.files(root / "ws", named=named)
    assert await files.read(str(root / "ws/a")) == "one\n"
    await files.write(str(root / "ws/sub/b"), "two")
    asked = [params["path"] for _, params in editor.asked]
    assert asked == [f"{named.rstrip('/')}/a", f"{named.rstrip('/')}/sub/b"]


async def test_a_name_that_leads_elsewhere_now_is_not_used(root, editor):
    (root / "link").symlink_to("ws")
    files = editor.files(root / "ws", named=root / "link")
    (root / "other").mkdir()
    (root / "link").unlink()
    (root / "link").symlink_to("other")
    for use in (files.read(str(root / "ws/a")), files.write(str(root / "ws/a"), "x")):
        with pytest.raises(EditorRefused, match="does not lead to") as caught:
            await use
        assert type(caught.value) is EditorRefused
    assert editor.asked == []


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (refusal(), "does not offer that after all"),
        (refusal(-32002, "not\nthere"), r"did not read .*: not there \(error -32002\)"),
        (refusal(-32603, ""), "it gave no reason"),
        (result(b"null"), "no text"),
        (result(b"{}"), "no text"),
        (result(b'{"content":null}'), "no text"),
        (result(b'{"content":["one"]}'), "no text"),
        (result(b'"one"'), "no text"),
        (MalformedReply("both a result and an error"), "makes no sense"),
        (Gone(), "is gone"),
    ],
)
async def test_what_is_no_text_refuses_a_read(root, editor, reply, words):
    editor.answers[READ] = reply
    with pytest.raises(EditorRefused, match=words):
        await editor.files(root / "ws").read(str(root / "ws/a"))


@pytest.mark.parametrize("json", [b"null", b"{}", b'{"_meta":{}}', b"[]", b'"ok"', b"false"])
async def test_any_result_says_that_it_was_written(root, editor, json):
    editor.answers[WRITE] = result(json)
    await editor.files(root / "ws").write(str(root / "ws/a"), "two")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refusal(), EditorRefused),
        (refusal(-32000, "The person said no"), EditorRefused),
        (MalformedReply("both a result and an error"), EditorLost),
        (Gone(), EditorLost),
    ],
)
async def test_a_write_is_undone_only_where_the_client_says_so(root, editor, reply, kind):
    editor.answers[WRITE] = reply
    with pytest.raises(EditorRefused) as caught:
        await editor.files(root / "ws").write(str(root / "ws/a"), "two")
    assert type(caught.value) is kind
    assert ("Nothing was written." in caught.value.reason) == (kind is EditorRefused)


async def test_a_client_that_is_gone_already_was_told_nothing(root, editor):
    def gone(method, params, settle):
        settle(Gone())
        return lambda: None

    editor.call = gone
    files = editor.files(root / "ws")
    for use in (files.read(str(root / "ws/a")), files.write(str(root / "ws/a"), "x")):
        with pytest.raises(EditorRefused, match="is gone") as caught:
            await use
        assert type(caught.value) is EditorRefused


async def test_a_client_that_never_answers_is_given_up_and_told_so(root, editor, autojump_clock):
    editor.hold = {READ, WRITE}
    files = editor.files(root / "ws")
    began = trio.current_time()
    with pytest.raises(EditorRefused, match="within 30 s"):
        await files.read(str(root / "ws/a"))
    assert trio.current_time() - began == pytest.approx(READ_S)
    with pytest.raises(EditorLost, match="said nothing for 600 s"):
        await files.write(str(root / "ws/a"), "two")
    assert trio.current_time() - began == pytest.approx(READ_S + WRITE_S)
    assert editor.withdrawn == [0, 1]


@pytest.mark.parametrize("what", ["read", "write"])
async def test_a_cancel_withdraws_the_request(root, editor, what):
    editor.hold = {READ, WRITE}
    files = editor.files(root / "ws")
    path = str(root / "ws/a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(*((files.read, path) if what == "read" else (files.write, path, "two")))
        await trio.testing.wait_all_tasks_blocked()
        assert editor.withdrawn == []
        nursery.cancel_scope.cancel()
    assert editor.withdrawn == [0]
    editor.let_go()
    assert (root / "ws/a").read_text() == "one\n"


async def test_a_request_is_sent_before_the_first_wait(root, editor):
    files = editor.files(root / "ws")
    with trio.CancelScope() as scope:
        scope.cancel()
        await files.write(str(root / "ws/a"), "two")
    assert scope.cancelled_caught
    assert editor.methods() == [WRITE]


async def test_what_a_client_says_is_quoted_shortly_and_escaped(root, editor):
    editor.answers[READ] = refusal(-32603, "\u202ex\x1b[31m" + "long " * 1_000_000)
    with pytest.raises(EditorRefused) as caught:
        await editor.files(root / "ws").read(str(root / "ws/a"))
    words = caught.value.reason
    assert words.isprintable()
    assert "\\u202ex\\u001b[31m" in words
    assert len(words) < MAX_QUOTED + 200
