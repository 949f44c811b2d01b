# SPDX-License-Identifier: Apache-2.0

import pathlib
import subprocess

import pytest

from tests.harness import releases

_SETTINGS = ("user.name=t", "user.email=t@example.org", "commit.gpgsign=no")
_GIT = ["git"] + [word for one in _SETTINGS for word in ("-c", one)]


def _commit(root: pathlib.Path, text: str) -> str:
    """Commit a package with a text; return the commit's id."""
    (root / "fpgapool").mkdir(exist_ok=True)
    (root / "fpgapool" / "code.py").write_text(text)
    (root / "README").write_text(f"of {text}")
    for arguments in (("add", "."), ("commit", "-qm", text)):
        subprocess.run([*_GIT, *arguments], cwd=root, check=True)
    told = subprocess.check_output(
        ["git", "rev-parse", "HEAD"], cwd=root, text=True
    )
    return told.strip()


@pytest.fixture
def history(tmp_path: pathlib.Path) -> tuple[pathlib.Path, list[str]]:
    """Give a checkout of three commits, the last of the same package."""
    root = tmp_path / "checkout"
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    commits = [_commit(root, text) for text in ("old", "new", "newer")]
    (root / "fpgapool" / "code.py").write_text("new")
    return root, commits


def test_the_old_release_is_a_fixed_one():
    assert releases.old_name()


@pytest.mark.parametrize(
    "text",
    ["", "HEAD", "main", "HEAD~3", "70b011d2", "1.0\n1.1", f"{'a' * 40}^"],
)
def test_what_may_become_the_present_is_refused(tmp_path, text):
    file = tmp_path / "old_release"
    file.write_text(f"# A comment.\n{text}\n")
    with pytest.raises(releases.Unusable, match="names"):
        releases.old_name(file)


def test_a_tag_is_fixed(tmp_path):
    file = tmp_path / "old_release"
    file.write_text("# A comment.\n1.2.0\n")
    assert releases.old_name(file) == "1.2.0"


def test_an_earlier_package_is_unpacked(history, tmp_path):
    root, (old, _, _) = history
    releases.unpack(old, tmp_path, root)
    assert (tmp_path / "fpgapool" / "code.py").read_text() == "old"
    assert not (tmp_path / "README").exists()


def test_the_present_package_is_refused(history, tmp_path):
    root, (_, new, _) = history
    with pytest.raises(releases.Unusable, match="same package"):
        releases.unpack(new, tmp_path, root)


def test_the_commit_that_added_a_file(history, tmp_path):
    root, _ = history
    releases.unpack("added:fpgapool/code.py", tmp_path, root)
    assert (tmp_path / "fpgapool" / "code.py").read_text() == "old"


@pytest.mark.parametrize("depth", ["--depth=1", "--depth=2"])
def test_a_shallow_clone_does_not_know_who_added_a_file(
    history, tmp_path, depth
):
    root, _ = history
    shallow = tmp_path / "shallow"
    subprocess.run(
        ["git", "clone", "-q", depth, root.as_uri(), str(shallow)], check=True
    )
    with pytest.raises(releases.Unusable, match="fetch --unshallow"):
        releases.unpack("added:fpgapool/code.py", tmp_path, shallow)


@pytest.mark.parametrize("path", ["fpgapool/none.py", "../README"])
def test_a_file_that_was_never_added(history, tmp_path, path):
    root, _ = history
    with pytest.raises(releases.Unusable, match="does not have"):
        releases.unpack(f"added:{path}", tmp_path, root)


def test_a_clone_without_the_release_says_what_to_do(history, tmp_path):
    root, (old, _, _) = history
    shallow = tmp_path / "shallow"
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", root.as_uri(), str(shallow)],
        check=True,
    )
    with pytest.raises(releases.Unusable, match="fetch --unshallow"):
        releases.unpack(old, tmp_path, shallow)


def test_an_unpacked_archive_says_what_to_do(history, tmp_path):
    _, (old, _, _) = history
    with pytest.raises(releases.Unusable, match="use a clone"):
        releases.unpack(old, tmp_path, tmp_path)
