# SPDX-License-Identifier: Apache-2.0

"""Whom the directories are open to, and who has them."""

import pathlib
from collections.abc import Iterator

import pytest

from fpgapool.agent.supervision import desks
from fpgapool.allinone import directories
from fpgapool.common import exception
from fpgapool.common.channels import channel
from tests.functional.allinone import harness

pytestmark = pytest.mark.security


@pytest.fixture
def root() -> Iterator[pathlib.Path]:
    with harness.short_directory() as path:
        yield path


def assert_refused(
    run_dir: pathlib.Path, state_dir: pathlib.Path | None, text: str
) -> None:
    with (
        pytest.raises(exception.ConfigurationError, match=text),
        directories.opened(run_dir, state_dir),
    ):
        pass


def test_state_is_temporary_by_default(root: pathlib.Path) -> None:
    with directories.opened(root / "run", None) as where:
        assert where.state_dir.is_relative_to(root / "run")
        assert where.log_dir().is_dir()
    assert not where.state_dir.exists()


def test_leftovers_are_removed(root: pathlib.Path) -> None:
    leftover = root / "state" / "node1" / "old"
    leftover.mkdir(parents=True)
    with directories.opened(root, None):
        assert not leftover.exists()


def test_named_state_is_kept(root: pathlib.Path) -> None:
    with directories.opened(root / "run", root / "state") as where:
        (where.state_dir / "kept").touch()
    assert (root / "state" / "kept").exists()


def test_new_directories_are_private(root: pathlib.Path) -> None:
    with directories.opened(root / "run", root / "state") as where:
        for path in (where.run_dir, where.state_dir, where.config_dir()):
            assert path.stat().st_mode & 0o777 == 0o700


def test_a_state_directory_without_room_for_sockets_is_refused(
    root: pathlib.Path,
) -> None:
    """A desk has the longest path: its group would wait for ever."""
    limit = channel.MAX_UNIX_PATH_BYTES - len(
        desks.longest_path("/node99").encode()
    )
    longest = root / ("d" * (limit - len(str(root)) - 1))
    with directories.opened(root / "run", longest):
        assert longest.is_dir()
    assert_refused(root / "run", longest.with_name(longest.name + "d"), "long")
    assert not longest.with_name(longest.name + "d").exists()
    # So would be the state below the directory of the front doors.
    assert_refused(longest, None, "socket paths would be too long")


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o702])
def test_open_directory_is_refused(root: pathlib.Path, mode: int) -> None:
    root.chmod(mode)
    assert_refused(root, None, "mode to 0700")


def test_link_is_refused(root: pathlib.Path) -> None:
    (root / "real").mkdir(mode=0o700)
    (root / "link").symlink_to("real")
    assert_refused(root / "link", None, "not a directory")


def test_file_is_refused(root: pathlib.Path) -> None:
    (root / "file").touch()
    assert_refused(root / "file", None, "File exists")


def test_other_users_directory_is_refused(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = root.stat().st_uid
    monkeypatch.setattr(directories.os, "getuid", lambda: owner + 1)
    assert_refused(root, None, "another user")


def test_odd_name_is_refused(root: pathlib.Path) -> None:
    assert_refused(root / "a\nb", None, "unprintable characters")


def test_one_process_at_a_time(root: pathlib.Path) -> None:
    run, state = root / "run", root / "state"
    with directories.opened(run, state):
        assert_refused(run, None, "another fpgapool-allinone")
        assert_refused(root / "run2", state, "another fpgapool-allinone")
    with directories.opened(run, state):
        pass


def test_default_is_where_clients_look(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fpgapool.client.doors import frontdoor

    for runtime_dir in (str(root), str(root / "missing"), ""):
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime_dir)
        path = directories.default_run_dir() / directories.FRONT_DOOR_NAME
        assert str(path) in frontdoor.candidate_paths()


def test_link_is_replaced_at_once(root: pathlib.Path) -> None:
    for name in ("one", "two"):
        (root / name).write_text(name)
        directories.point_to(root / name, root / "link")
    assert (root / "link").read_text() == "two"
