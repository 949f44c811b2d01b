# SPDX-License-Identifier: Apache-2.0

"""Where a client looks for a front door, and which places it trusts."""

from __future__ import annotations

import os
import pathlib
import socket
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.client import errors
from fpgapool.client.doors import frontdoor

NAME = "front-door.sock"


@pytest.fixture
def place(tmp_path) -> Iterator[pathlib.Path]:
    """Give a private directory with a socket."""
    directory = tmp_path / "fpgapool-1"
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / NAME))
        yield directory


def _look_at(
    monkeypatch: pytest.MonkeyPatch, *directories: pathlib.Path
) -> list[str]:
    paths = [str(directory / NAME) for directory in directories]
    monkeypatch.setattr(frontdoor, "candidate_paths", lambda: paths)
    return paths


def _refusal() -> str:
    with pytest.raises(errors.FrontDoorUnavailable) as caught:
        frontdoor.default_path()
    assert caught.value.code == "FRONT_DOOR_UNAVAILABLE"
    return caught.value.message


def test_conventional_places(monkeypatch) -> None:
    """Anybody may be the first in /tmp; root alone makes those in /run."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert frontdoor.candidate_paths() == [
        "/run/user/7/fpgapool/front-door.sock",
        "/run/fpgapool/front-door.sock",
        f"/tmp/fpgapool-{os.getuid()}/front-door.sock",
    ]


def test_the_first_socket_is_used(tmp_path, place, monkeypatch) -> None:
    file = tmp_path / "file"
    file.mkdir()
    (file / NAME).touch()
    paths = _look_at(monkeypatch, tmp_path / "none", file, place)
    assert frontdoor.default_path() == paths[2]
    monkeypatch.setenv("FPGAPOOL_SOCKET", "/elsewhere")
    assert frontdoor.default_path() == "/elsewhere"


def test_a_link_to_a_socket_in_a_private_directory_is_used(
    place, monkeypatch
) -> None:
    """The all-in-one pool makes one."""
    (place / NAME).rename(place / "node0.sock")
    (place / NAME).symlink_to("node0.sock")
    (path,) = _look_at(monkeypatch, place)
    assert frontdoor.default_path() == path


def _link(place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    moved = place.rename(place.with_name("elsewhere"))
    place.symlink_to(moved)
    return "is a symbolic link or not a directory"


def _open_to_group(
    place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    place.chmod(0o770)
    return "is writable by its group or by all users"


def _open_to_all(place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place.chmod(0o1777)
    return "is writable by its group or by all users"


def _of_another_user(
    place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    status = list(os.lstat(place))
    status[4] = os.getuid() + 1
    monkeypatch.setattr(
        frontdoor.os, "lstat", lambda _: os.stat_result(status)
    )
    return "belongs to another user"


@pytest.mark.security
@pytest.mark.parametrize(
    "squat", [_link, _open_to_group, _open_to_all, _of_another_user]
)
def test_a_place_that_others_can_make_is_refused(
    place,
    monkeypatch,
    squat: Callable[[pathlib.Path, pytest.MonkeyPatch], str],
) -> None:
    _look_at(monkeypatch, place)
    reason = squat(place, monkeypatch)
    assert f"{place} ({reason})" in _refusal()


@pytest.mark.security
def test_a_refused_place_does_not_hide_the_next_one(
    tmp_path, place, monkeypatch
) -> None:
    """A squatter must not keep programs from their pool."""
    squatted = tmp_path / "squatted"
    squatted.symlink_to(place)
    _, path = _look_at(monkeypatch, squatted, place)
    assert frontdoor.default_path() == path


@pytest.mark.security
def test_a_system_directory_belongs_to_the_service_and_is_not_open(
    place, monkeypatch
) -> None:
    (path,) = _look_at(monkeypatch, place)
    monkeypatch.setattr(frontdoor, "SYSTEM_PATH", path)
    _of_another_user(place, monkeypatch)
    assert frontdoor.default_path() == path
    place.chmod(0o777)
    monkeypatch.undo()
    _look_at(monkeypatch, place)
    monkeypatch.setattr(frontdoor, "SYSTEM_PATH", path)
    assert "is writable by" in _refusal()


def test_a_named_place_that_does_not_exist(monkeypatch, tmp_path) -> None:
    path = tmp_path / "nosock"
    monkeypatch.setenv("FPGAPOOL_SOCKET", str(path))
    for ask in (
        lambda: client.acc_open("sha", 1),
        client.accelerators,
        lambda: client.run_buffer("sha", b"data"),
    ):
        with pytest.raises(errors.FrontDoorUnavailable) as caught:
            ask()
        assert str(caught.value) == (
            f"FRONT_DOOR_UNAVAILABLE: FPGAPOOL_SOCKET names {path}, which does"
            " not exist; start fpgapool-allinone, or unset it"
        )
        # Nothing was sent, so no log has its ID.
        assert caught.value.request_id is None
