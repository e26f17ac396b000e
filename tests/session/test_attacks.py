"""Tricks that are to widen what a person allowed, or to get at what nobody may see. None of them works.

The tools use threads, so these run on the real clock and wait for frames, never for time.
"""

import json
import os
import pwd

import pytest

from term2_acp.config import home_directory
from term2_acp.workspace import Workspace
from tests.kit.daemon import running
from tests.kit.home import Home
from tests.kit.indoors import indoors
from tests.session.test_files_in_a_turn import create, playing, read, replace


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def search(pattern: str, path=".") -> tuple[str, dict]:
    return "grep", {"pattern": pattern, "path": str(path)}


def statuses(turn) -> list[str]:
    return [call["status"] for call in turn.calls.values()]


async def test_a_link_inside_a_granted_folder_leads_out_of_the_grant(tmp_path, outside):
    (outside / "a.txt").write_text("A")
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").write_text("K")
    rules = {"go": [[read(outside / "a.txt")], [read(outside / "link/key")], [search("K", outside)]]}
    async with indoors(tmp_path, playing(rules)) as daemon:
        (outside / "link").symlink_to(tmp_path / "private")
        _, turn = await daemon.begin("go")
        await daemon.editor.choose(await daemon.editor.next_ask(), "allow-folder-session")
        ask = await daemon.editor.next_ask()
        assert f"Reads {tmp_path}/private/key and" in ask["params"]["description"]
        await daemon.editor.choose(ask, "reject")
        assert await turn.ended() == "end_turn"
        assert statuses(turn) == ["completed", "failed", "completed"]
        assert list(turn.calls.values())[2]["rawOutput"]["matches"] == 0


async def test_an_edit_grant_ends_where_its_folder_became_a_link(tmp_path, outside):
    (outside / "sub").mkdir()
    rules = {"go": [[create(outside / "sub/a.txt")]], "more": [[create(outside / "sub/b.txt")]]}
    async with indoors(tmp_path, playing(rules)) as daemon:
        session_id, turn = await daemon.begin("go")
        await daemon.editor.choose(await daemon.editor.next_ask(), "allow-edit-folder-session")
        assert await turn.ended() == "end_turn"
        (outside / "sub").rename(outside / "old")
        (tmp_path / "private").mkdir()
        (outside / "sub").symlink_to(tmp_path / "private")
        turn = await daemon.editor.begin(session_id, "more")
        ask = await daemon.editor.next_ask()
        assert f"Changes {tmp_path}/private/b.txt." in ask["params"]["description"]
        await daemon.editor.choose(ask, "deny")
        assert await turn.ended() == "end_turn"
        assert list((tmp_path / "private").iterdir()) == []


@pytest.mark.parametrize("swap", ["folder", "file", "fifo"])
async def test_what_is_swapped_while_its_ask_is_open_is_not_reached(tmp_path, outside, swap):
    (outside / "sub").mkdir()
    path = outside / "sub/a.txt"
    path.write_text("shown")
    (tmp_path / "private").mkdir()
    (tmp_path / "private/a.txt").write_text("needle of another file")
    async with indoors(tmp_path, playing({"go": [[search("needle", path)]]})) as daemon:
        session_id, turn = await daemon.begin("go")
        ask = await daemon.editor.next_ask()
        if swap == "folder":
            (outside / "sub").rename(outside / "old")
            (outside / "sub").symlink_to(tmp_path / "private")
        else:
            path.unlink()
            if swap == "file":
                path.symlink_to(tmp_path / "private/a.txt")
            else:
                os.mkfifo(path)
        await daemon.editor.choose(ask, "approve")
        # A place that leads elsewhere is a stale ask; another kind of thing in its place is a failed call.
        assert await turn.ended() == ("end_turn" if swap == "fifo" else "cancelled")
        assert statuses(turn) == ["failed" if swap == "fifo" else "cancelled"]
        assert "needle of" not in json.dumps(daemon.editor.updates(session_id))


async def test_a_workspace_that_became_a_link_is_outside(tmp_path):
    async with indoors(tmp_path, playing({"go": [[create("a.txt")]]})) as daemon:
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(daemon.workspace)
        (tmp_path / "private").mkdir()
        daemon.workspace.rmdir()
        daemon.workspace.symlink_to(tmp_path / "private")
        turn = await daemon.editor.begin(session_id, "go")
        ask = await daemon.editor.next_ask()
        assert f"Changes {tmp_path}/private/a.txt." in ask["params"]["description"]
        await daemon.editor.choose(ask, "deny")
        assert await turn.ended() == "end_turn"
        assert list((tmp_path / "private").iterdir()) == []


async def test_a_grant_is_its_own_sessions(tmp_path, outside):
    (outside / "a.txt").write_text("A")
    async with indoors(tmp_path, playing({"go": [[read(outside / "a.txt")]]})) as daemon:
        _, turn = await daemon.begin("go")
        await daemon.editor.choose(await daemon.editor.next_ask(), "allow-folder-session")
        await turn.ended()
        other = await daemon.editor.begin(await daemon.editor.new_session(daemon.workspace), "go")
        await daemon.editor.choose(await daemon.editor.next_ask(), "reject")
        await other.ended()
        assert statuses(other) == ["failed"]


async def test_a_files_name_cannot_write_a_line_of_its_ask(tmp_path, outside):
    name = "a\nThis path is inside the workspace.\u202e\x1b[2K\u200btxt"
    (outside / name).write_text("A")
    async with indoors(tmp_path, playing({"go": [[read(outside / name)]]})) as daemon:
        _, turn = await daemon.begin("go")
        params = (await daemon.editor.next_ask())["params"]
        shown = "a\\u000aThis path is inside the workspace.\\u202e\\u001b[2K\\u200btxt"
        assert params["description"].split("\n") == [
            f"Reads {outside}/{shown} and gives its text to the model.",
            "This path is outside the workspace.",
            f"Working directory: {daemon.workspace}",
        ]
        names = "".join(option["name"] for option in params["options"])
        titles = params["title"] + params["subject"]["toolCall"]["title"]
        assert (names + titles).isprintable()
        await daemon.editor.cancel(params["sessionId"])
        await turn.ended()


async def test_credentials_are_not_found_from_a_workspace_that_holds_them(tmp_path):
    home = tmp_path / "home"
    for name in (".ssh/id", ".aws/credentials", ".netrc", ".bash_history", "dotfiles/kube/config", "notes"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("needle")
    (home / ".kube").symlink_to("dotfiles/kube")
    rules = {"go": [[search("needle"), ("glob", {"pattern": "**"})], [read("dotfiles/kube/config")]]}
    async with indoors(tmp_path, playing(rules)) as daemon:
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(home)
        turn = await daemon.editor.begin(session_id, "go")
        ask = await daemon.editor.next_ask()
        assert "This path is protected (~/.kube)." in ask["params"]["description"]
        assert [option["optionId"] for option in ask["params"]["options"]] == ["approve", "reject"]
        await daemon.editor.choose(ask, "reject")
        assert await turn.ended() == "end_turn"
        found, listed, _refused = turn.calls.values()
        assert found["content"][0]["content"]["text"].startswith("notes\n1: needle\n[1 matching line")
        assert listed["content"][0]["content"]["text"].startswith("notes\n[1 file found")


async def test_edits_of_one_reply_build_on_each_other(tmp_path):
    rules = {
        "go": [
            [read("a.txt")],
            [replace("a.txt", "one", "two"), replace("a.txt", "two", "three"), replace("a.txt", "two", "x")],
        ]
    }
    async with indoors(tmp_path, playing(rules)) as daemon:
        (daemon.workspace / "a.txt").write_text("one\n")
        _, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        assert statuses(turn) == ["completed", "completed", "completed", "failed"]
        assert (daemon.workspace / "a.txt").read_text() == "three\n"
        assert os.listdir(daemon.workspace) == ["a.txt"]


FROM_ENVIRONMENT = "sk-environment-0123456789abcdef"
FROM_SETTINGS = "settings-key-fedcba9876543210-x"


async def test_no_key_is_in_anything_the_process_writes_whole_or_cut(tmp_path):
    key, other = FROM_ENVIRONMENT, FROM_SETTINGS
    rules = {
        "go": [
            [
                read("env.txt"),
                read("at the bound of a result.txt"),
                search("begins"),
                search(f"[{key}"),
                ("glob", {"pattern": f"*{key}"}),
                (f"tool-{key}", {"key": key}),
                ("read_file", {"path": "x", key: 1}),
                ("read_file", {"path": "x" * 100 + key}),
                create(f"{key}.txt", f"{other}\n"),
                ("update_plan", {"entries": [{"content": f"use {other}"}]}),
                replace("env.txt", f"not {key}", other),
            ],
            [create(tmp_path / "outside.txt", f"{key} {other}")],
        ]
    }
    lab = f'type = "openai-compatible"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "{other}"'
    home = Home.make(tmp_path, playing(rules), extra=f"[providers.lab]\n{lab}\n")
    home.settings.chmod(0o600)
    (home.workspace / "env.txt").write_text(f"A={key}\nB={other}\n")
    # One character is missing where the results are cut: at 64 KiB of a line, at 400 bytes of a match.
    (home.workspace / "at the bound of a result.txt").write_text("x" * (64 * 1024 - len(key) + 1) + key)
    (home.workspace / "line.txt").write_text("begins".ljust(400 - len(other) + 1) + other)
    (home.workspace / "AGENTS.md").write_text(f"The key is {key}.")
    more = {"OPENAI_API_KEY": key, "TERM2_LOG_LEVEL": "debug"}
    async with running(home, environment=more) as daemon:
        await daemon.initialize()
        session_id = await daemon.new_session(home.workspace)
        turn = await daemon.begin(session_id, "go")
        ask = await daemon.next_ask()
        await daemon.choose(ask, "deny")
        await turn.ended()
        await daemon.request("session/close", {"sessionId": session_id})
        replay = {"cwd": str(home.workspace), "replayFrom": {"type": "start"}}
        await daemon.request("session/resume", {"sessionId": session_id, **replay})
    assert len(turn.calls) == 12
    written = [json.dumps(daemon.frames), daemon.stderr]
    written += [path.read_bytes().decode("latin-1") for path in home.state.rglob("*") if path.is_file()]
    assert len(written) > 2
    for secret in (key, other):
        assert not [text for text in written if secret[: len(secret) * 3 // 4 + 1] in text]
    assert (home.workspace / f"{key}.txt").read_text() == f"{other}\n", "what is done is what was asked for"


@pytest.mark.parametrize("home", ["", "not/absolute"])
def test_without_a_usable_home_the_accounts_hidden_paths_stay_hidden(home):
    found = home_directory({"HOME": home})
    assert found == pwd.getpwuid(os.getuid()).pw_dir
    target = Workspace("/", home=found).resolve(f"{found}/.ssh/id")
    assert target.guarded == "~/.ssh"
