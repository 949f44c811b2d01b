# SPDX-License-Identifier: Apache-2.0

import contextlib
import errno
import gc
import io
import logging
import logging.handlers
import os
import pathlib
import types
import weakref
from collections.abc import Iterator
from unittest import mock

import pytest
from oslo_config import cfg

from fpgapool.agent.child import process
from fpgapool.common import config
from fpgapool.common.monitoring import lost_lines

_FULL = "/dev/full"
_MANY = 1000

LOG = logging.getLogger("fpgapool.tests")
LOG.setLevel(logging.INFO)


@contextlib.contextmanager
def _alone(*handlers: logging.Handler) -> Iterator[None]:
    """Have only these handlers; pytest adds its own before each test."""
    with mock.patch.object(logging.getLogger(), "handlers", list(handlers)):
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """Give a clock that stands still."""
    made = types.SimpleNamespace(now_s=1000.0)
    its_time = types.SimpleNamespace(monotonic=lambda: made.now_s)
    monkeypatch.setattr(lost_lines, "time", its_time)
    return made


def _log_many() -> None:
    for number in range(_MANY):
        LOG.info("line %d", number)


def test_a_full_disk_is_told_now_and_then(clock, capsys):
    handler = logging.FileHandler(_FULL)
    with _alone(handler):
        lost_lines.count()
        _log_many()
        clock.now_s += lost_lines.INTERVAL_S
        _log_many()
    told = "Cannot write to the log /dev/full: No space left on device"
    assert capsys.readouterr().err.splitlines() == [
        f"{told}; lines lost: 1",
        f"{told}; lines lost: {_MANY + 1}",
    ]
    with pytest.raises(OSError, match="No space"):
        handler.close()


class _Disk(io.StringIO):
    """A file on a disk that may be full."""

    full = False

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(text)


def test_the_log_says_later_what_it_lacks(clock):
    disk = _Disk()
    with _alone(logging.StreamHandler(disk)):
        lost_lines.count()
        disk.full = True
        _log_many()
        disk.full = False
        LOG.info("There is space.")
        assert disk.getvalue() == (
            "There is space.\n"
            f"{_MANY} lines of this log were lost: [Errno 28] No space left"
            " on device\n"
        )
        # Also if it comes and goes.
        for disk.full in (True, False) * _MANY:
            LOG.info("good or lost")
        assert disk.getvalue().count("were lost") == 1
        clock.now_s += lost_lines.INTERVAL_S
        LOG.info("good")
    assert f"{_MANY} lines" in disk.getvalue().splitlines()[-1]


def test_a_file_that_cannot_be_made_again_disturbs_nobody(
    clock, tmp_path, capsys
):
    directory = tmp_path / "log"
    directory.mkdir()
    path = directory / "a.log"
    handler = logging.handlers.WatchedFileHandler(path)
    with _alone(handler):
        lost_lines.count()
        LOG.info("one")
        path.unlink()
        directory.rmdir()
        _log_many()
        (told,) = capsys.readouterr().err.splitlines()
        assert f"Cannot write to the log {path}: No such file" in told
        directory.mkdir()
        LOG.info("two")
    handler.close()
    lines = path.read_text().splitlines()
    assert lines[0] == "two"
    assert lines[1].startswith(f"{_MANY} lines of this log were lost")


def test_a_lost_line_keeps_nothing_of_the_code_that_logged_it(clock):
    clock.now_s += lost_lines.INTERVAL_S

    def log() -> weakref.ref:
        used = _Disk()
        LOG.info("lost")
        return weakref.ref(used)

    gc.disable()
    try:
        with _alone(_Broken()):
            lost_lines.count()
            assert log()() is None
    finally:
        gc.enable()


class _Broken(logging.Handler):
    """Raises as the handlers of syslog and of the journal do."""

    def emit(self, record: logging.LogRecord) -> None:
        raise ConnectionRefusedError("nobody listens")


def _unbuffered(file: str | int) -> io.TextIOWrapper:
    """Open a file that has nothing left to write when it is closed."""
    return io.TextIOWrapper(io.FileIO(file, "w"), write_through=True)


@contextlib.contextmanager
def _broken() -> Iterator[logging.Handler]:
    yield _Broken()


@contextlib.contextmanager
def _closed_pipe() -> Iterator[logging.Handler]:
    reader, writer = os.pipe()
    os.close(reader)
    with _unbuffered(writer) as stream:
        yield logging.StreamHandler(stream)


@pytest.mark.parametrize("make", [_broken, _closed_pipe])
@pytest.mark.parametrize("stderr", ["open", "full", "closed", "none"])
def test_no_error_reaches_who_logs(clock, monkeypatch, capsys, make, stderr):
    closed = io.StringIO()
    closed.close()
    with _unbuffered(_FULL) as full, make() as handler, _alone(handler):
        if stderr != "open":
            streams = {"full": full, "closed": closed, "none": None}
            monkeypatch.setattr("sys.stderr", streams[stderr])
        lost_lines.count()
        _log_many()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == (1 if stderr == "open" else 0)


def test_a_line_that_is_wrong_is_shown_with_its_place(clock, capsys):
    stream = io.StringIO()
    with _alone(logging.StreamHandler(stream)):
        lost_lines.count()
        for _ in range(_MANY):
            LOG.info("%d", "no number")
        LOG.info("good")
    error = capsys.readouterr().err
    assert error.count("--- Logging error ---") == 1
    assert pathlib.Path(__file__).name in error
    assert f"{_MANY} lines of this log were lost" in stream.getvalue()


def _begin_service() -> None:
    config.init(
        "fpgapool-test",
        ["--log-file", _FULL],
        conf=cfg.ConfigOpts(),
        default_config_files=[],
    )


def _begin_worker() -> None:
    process._set_up_log(
        types.SimpleNamespace(
            log_file=_FULL, log_level="INFO", log_name="board0.0"
        )
    )


@pytest.mark.parametrize("begin", [_begin_service, _begin_worker])
def test_all_processes_count_what_they_lose(capfd, begin):
    with _alone():
        begin()
        _log_many()
        for handler in logging.getLogger().handlers:
            with contextlib.suppress(OSError):
                handler.stream.close()
    said = capfd.readouterr().err
    assert "No space left" in said
    assert "Traceback" not in said
    assert len(said.splitlines()) < 5
