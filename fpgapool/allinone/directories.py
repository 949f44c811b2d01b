# SPDX-License-Identifier: Apache-2.0

"""The directories of an all-in-one pool."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import shutil
import stat
from collections.abc import Iterator

from fpgapool.agent.door import doorway
from fpgapool.agent.supervision import desks
from fpgapool.agent.supervision import workers
from fpgapool.common import exception
from fpgapool.common.channels import channel

#: The client library looks for this name in its conventional directories.
FRONT_DOOR_NAME = "front-door.sock"

_LOCK_NAME = "allinone.lock"
_STATE_NAME = "state"

#: Longest socket paths within the two directories.
_LONGEST_IN_RUN_DIR = f"/node99.sock{doorway.NEW_SUFFIX}"
_LONGEST_IN_STATE_DIR = max(
    desks.longest_path("/node99"),
    workers.data_path("/node99", ("board99", 99)),
    key=len,
)


def default_run_dir() -> pathlib.Path:
    """Return the directory where the user's programs look for sockets."""
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR")
    # After su and in containers, the variable often names a missing directory.
    if runtime_dir and os.path.isdir(runtime_dir):
        return pathlib.Path(runtime_dir, "fpgapool")
    return pathlib.Path(f"/tmp/fpgapool-{os.getuid()}")


@dataclasses.dataclass(frozen=True)
class Directories:
    run_dir: pathlib.Path
    state_dir: pathlib.Path

    def front_door(self, host_name: str) -> pathlib.Path:
        return self.run_dir / f"{host_name}.sock"

    def default_front_door(self) -> pathlib.Path:
        """Return the path that clients use by default."""
        return self.run_dir / FRONT_DOOR_NAME

    def host_state_dir(self, host_name: str) -> pathlib.Path:
        return self.state_dir / host_name

    def config_dir(self) -> pathlib.Path:
        return self.state_dir / "config"

    def log_dir(self) -> pathlib.Path:
        return self.state_dir / "log"

    def log_file(self) -> pathlib.Path:
        """Return the log file that the conductor and agents share."""
        return self.log_dir() / "allinone.log"


@contextlib.contextmanager
def opened(
    run_dir: pathlib.Path | None, state_dir: pathlib.Path | None
) -> Iterator[Directories]:
    """Create and lock the directories, and clean up at the end.

    :param run_dir: None means the conventional one.
    :param state_dir: None means a temporary one. It is removed at the end; if
        this process is killed, the next one removes it.
    :raises ConfigurationError: if a directory cannot be used, is accessible to
        other users, or is in use by another process.
    """
    run_dir = pathlib.Path(run_dir or default_run_dir()).absolute()
    with contextlib.ExitStack() as stack:
        _check_length(run_dir, _LONGEST_IN_RUN_DIR)
        _make_private(run_dir)
        stack.enter_context(_locked(run_dir))
        if state_dir is None:
            state_dir = run_dir / _STATE_NAME
            _remove_tree(state_dir)
            stack.callback(_remove_tree, state_dir)
        state_dir = state_dir.absolute()
        _check_length(state_dir, _LONGEST_IN_STATE_DIR)
        _make_private(state_dir)
        if state_dir != run_dir:
            stack.enter_context(_locked(state_dir))
        directories = Directories(run_dir, state_dir)
        for path in (directories.config_dir(), directories.log_dir()):
            _make_private(path)
        yield directories


def _make_private(path: pathlib.Path) -> None:
    if not os.fspath(path).isprintable():
        raise _unusable(path, "the name has unprintable characters")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Do not follow a symbolic link: in /tmp, any user can create one.
        found = path.lstat()
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    if not stat.S_ISDIR(found.st_mode):
        raise _unusable(path, "not a directory")
    if found.st_uid != os.getuid():
        raise _unusable(path, "belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise _unusable(
            path, "other users can access it; change its mode to 0700"
        )


def _check_length(path: pathlib.Path, longest_suffix: str) -> None:
    most_bytes = channel.MAX_UNIX_PATH_BYTES - len(longest_suffix)
    if len(os.fsencode(path)) > most_bytes:
        raise _unusable(
            path,
            "its socket paths would be too long; use a directory whose path"
            f" is at most {most_bytes} bytes",
        )


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(
                open(path / _LOCK_NAME, "a+", encoding="ascii")
            )
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read(32).strip() or "unknown"
            raise _unusable(
                path,
                f"in use by another fpgapool-allinone (process {holder})",
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        # Do not remove the file: otherwise, two processes could lock different
        # files of the same name.
        yield


def _remove_tree(path: pathlib.Path) -> None:
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, f"cannot be removed: {error}") from error


def _unusable(path: pathlib.Path, reason: str) -> exception.ConfigurationError:
    return exception.ConfigurationError(reason=f"directory {path}: {reason}")


def point_to(target: pathlib.Path, link: pathlib.Path) -> None:
    """Create or replace a symbolic link atomically."""
    fresh = link.with_name(f"{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target.name)
    fresh.replace(link)
