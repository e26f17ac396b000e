"""The links among guarded names: found, and found again when one appears, goes, or leads elsewhere."""

import os

from term2_acp.workspace.links import UNSETTLED_NS, NamedLinks


def settled(folder) -> None:
    """Make the folder look as if nothing had happened in it for a while."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            old = os.stat(path).st_mtime_ns - 100 * UNSETTLED_NS
            os.utime(path, ns=(old, old))


def test_a_link_is_seen_the_moment_it_is_there_and_gone_the_moment_it_is_not(tmp_path):
    links = NamedLinks(str(tmp_path), home=True)
    target = tmp_path / "dotfiles"
    target.mkdir()
    assert links.leading_elsewhere() == []
    settled(tmp_path)
    assert links.leading_elsewhere() == []
    (tmp_path / ".ssh").symlink_to(target)
    assert links.leading_elsewhere() == [(str(target), "~/.ssh")]
    (tmp_path / ".ssh").unlink()
    assert links.leading_elsewhere() == []


def test_a_name_in_a_folder_below_is_seen_too(tmp_path):
    (tmp_path / ".config").mkdir()
    (tmp_path / "elsewhere").mkdir()
    links = NamedLinks(str(tmp_path), home=True)
    assert links.leading_elsewhere() == []
    (tmp_path / ".config" / "gcloud").symlink_to(tmp_path / "elsewhere")
    assert links.leading_elsewhere() == [(str(tmp_path / "elsewhere"), "~/.config/gcloud")]


def test_where_a_link_leads_is_asked_each_time(tmp_path):
    outside = tmp_path / "outside"
    home = tmp_path / "home"
    for folder in (outside, home, outside / "a", outside / "b"):
        folder.mkdir()
    (outside / "hop").symlink_to(outside / "a")
    (home / ".aws").symlink_to(outside / "hop")
    settled(home)
    links = NamedLinks(str(home), home=True)
    assert links.leading_elsewhere() == [(str(outside / "a"), "~/.aws")]
    (outside / "hop").unlink()
    (outside / "hop").symlink_to(outside / "b")
    assert links.leading_elsewhere() == [(str(outside / "b"), "~/.aws")]


def test_what_does_not_change_is_not_looked_at_again(tmp_path, monkeypatch):
    settled(tmp_path)
    links = NamedLinks(str(tmp_path), home=False)
    looked = []
    real = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: looked.append(path) or real(path))
    links._state = None
    # A folder's ctime cannot be set back, so the first looks may fall into the unsettled time.
    while links._state is None:
        links.leading_elsewhere()
    looked.clear()
    links.leading_elsewhere()
    assert looked == []


def test_a_name_in_a_folder_that_was_not_there_is_seen(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".local").mkdir()
    links = NamedLinks(str(tmp_path), home=True)
    settled(tmp_path)
    assert links.leading_elsewhere() == []
    fish = tmp_path / ".local" / "share" / "fish"
    fish.mkdir(parents=True)
    (fish / "fish_history").symlink_to(tmp_path / "elsewhere")
    place = (str(tmp_path / "elsewhere"), "~/.local/share/fish/fish_history")
    assert links.leading_elsewhere() == [place]
