# SPDX-License-Identifier: Apache-2.0

"""Processes that keep the rights that workers give up.

A worker runs tenants' code, so it gives up its rights before its first
session. What its driver must still do with rights, such as writing to a board
or to files that other workers trust, is a *duty*. The worker forks a helper
beforehand, which does the driver's duties when it is asked.

The helper trusts nothing that the worker sends: a request is bounded, and is
JSON and bytes; its members are checked; and the worker gets data, or a code
and a message. A request that is too long ends the helper. It has no other
descriptors of the worker but the log, and the worker cannot read or change its
memory: the rooms of workers forbid that, and the helper is not dumpable.

A fork takes about as long as the rest of a worker's start, so processes that
wait to become workers call :func:`prepare`.
"""

from __future__ import annotations

import collections.abc
import contextlib
import ctypes
import json
import logging
import os
import pkgutil
import signal
import socket
import sys
import threading
import typing
from multiprocessing import connection

from fpgapool.common.monitoring import ratelimit
from fpgapool.common.walls import rights
from fpgapool.drivers import base
from fpgapool.objects import untrusted
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)
# For lines that any request can cause: no limit of the worker's files holds.
_OFTEN = ratelimit.RateLimitedLog(__name__)

_MAX_HEADER_BYTES = 64 * 1024
_MAX_DEPTH = 4
#: Ends a header, which is JSON without line feeds.
_END = b"\n"
_FIRST_OTHER_FD = 3

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_libc = ctypes.CDLL(None, use_errno=True)

_NO_MEMBERS = shapes.Members({})


class Duty(typing.NamedTuple):
    """Something that a driver must do with rights.

    :ivar run: called with the data of the request, and its members by name;
        returns the data of the answer, and may raise any exception.
    :ivar max_bytes: maximum size of the data of the request.
    """

    run: collections.abc.Callable[..., bytes]
    members: shapes.Members = _NO_MEMBERS
    max_bytes: int = 0


class Ask(typing.Protocol):
    """Does duties, here or elsewhere; see :meth:`Local.ask`."""

    def __call__(
        self, name: str, data: bytes = b"", /, **members: object
    ) -> bytes: ...


class Local:
    """Does duties in this process, for drivers outside workers."""

    def __init__(self, duties: collections.abc.Mapping[str, Duty]) -> None:
        self._duties = duties

    def ask(self, name: str, data: bytes = b"", /, **members: object) -> bytes:
        """Do a duty, and block until it is done.

        :returns: the data of its answer.
        :raises exceptions.CodedError: as the duty; a helper raises it as
            DriverError.
        """
        return self._duties[name].run(data, **members)


class Helper(Local):
    """A process that does duties, and ends with this one.

    Any thread may ask it; it does one duty at a time. See :func:`start`.

    :ivar pid: the number of the process.
    """

    def __init__(self) -> None:
        super().__init__({})
        self._lock = threading.Lock()
        worker_pid = os.getpid()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.pid = os.fork()
            if self.pid == 0:
                _live(theirs, worker_pid)
            self._connection = connection.Connection(ours.detach())

    def begin(self, make: str, arguments: tuple[object, ...]) -> None:
        """Tell the helper its duties; the last thing that it believes."""
        root = logging.getLogger()
        log = next(_logs(root), None)
        begin = {
            "make": make,
            "arguments": arguments,
            "level": root.level,
            "format": None if log is None else log[1],
        }
        with socket.socket(fileno=os.dup(self._connection.fileno())) as sock:
            socket.send_fds(sock, [b"\0"], [] if log is None else [log[0]])
        self._connection.send_bytes(json.dumps(begin).encode())

    def ask(self, name: str, data: bytes = b"", /, **members: object) -> bytes:
        """Have a duty done, and block until it is done.

        :raises base.DriverError: with the code of the duty's error;
            ``PROCESS_SPENT`` if the helper has ended, so that this process
            should end, too.
        """
        request = _joined({"duty": name, "members": members}, data)
        with self._lock:
            try:
                self._connection.send_bytes(request)
                header, _, answer = self._connection.recv_bytes().partition(
                    _END
                )
                refusal = json.loads(header)
            except (EOFError, OSError) as error:
                self._connection.close()
                raise base.DriverError(
                    codes.PROCESS_SPENT,
                    f"the worker's helper process {self.pid} has ended, so"
                    f" the worker cannot do {name!r}; its log may say why",
                ) from error
            except BaseException:
                # The next request must not get this one's answer.
                self._connection.close()
                raise
        if refusal:
            raise base.DriverError(*refusal)
        return answer

    def end(self) -> None:
        """End the helper once it has nothing to do. It may be called again."""
        self._connection.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


#: Forked beforehand, for the first helper of this process.
_prepared: list[Helper] = []


def prepare() -> None:
    """Fork the helper that this process will need, before it is asked.

    Never called in a process that is forked later.

    :raises OSError: if that is impossible.
    """
    _prepared.append(Helper())


def start(make: str, *arguments: object) -> Helper:
    """Start the helper of this process.

    Called in the main thread, before there are others.

    :param make: function that returns the duties, as ``module:function``; the
        helper calls it.
    :param arguments: plain values for it.
    :raises OSError: if the helper cannot be forked.
    """
    helping = _prepared.pop() if _prepared else Helper()
    helping.begin(make, arguments)
    return helping


def _live(sock: socket.socket, worker_pid: int) -> typing.NoReturn:
    """Be the helper until the worker ends."""
    try:
        _detach(sock.fileno(), worker_pid)
        _, logs, _, _ = socket.recv_fds(sock, 1, 1)
        worker = connection.Connection(sock.detach())
        begin = json.loads(worker.recv_bytes())
        # The descriptors of the worker's handlers are others now. They must
        # not be closed, so the handlers stay where nobody uses them.
        _inherited = logging.root.handlers[:]
        logging.root.handlers.clear()
        logging.basicConfig(
            stream=open(logs[0], "a") if logs else sys.stderr,  # noqa: SIM115
            level=begin["level"],
            format=begin["format"],
        )
        make = pkgutil.resolve_name(begin["make"])
        _serve(worker, make(*begin["arguments"]))
    except (EOFError, ConnectionError):
        # The worker has ended.
        pass
    except BaseException:
        LOG.exception("the helper process ends")
    finally:
        # Skip the worker's exit handlers.
        os._exit(0)


def _detach(fd: int, worker_pid: int) -> None:
    """Keep one descriptor of the worker, and where it writes errors."""
    # The command line is the worker's.
    _libc.prctl(_PR_SET_NAME, b"fpgapool-helper", 0, 0, 0)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # They may be sent to all processes of a service; the worker decides when
    # it ends, and needs its helper until then.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != worker_pid:
        raise EOFError
    os.umask(0o077)
    # A process that waits to become a worker gets its settings there.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for other in map(int, os.listdir("/proc/self/fd")):
        if other >= _FIRST_OTHER_FD and other != fd:
            # The directory's own descriptor is closed already.
            with contextlib.suppress(OSError):
                os.close(other)
    rights.hide_memory()


def _logs(
    root: logging.Logger,
) -> collections.abc.Iterator[tuple[int, str | None]]:
    """Yield the descriptor and the format of each of a logger's files."""
    for handler in root.handlers:
        # Some handlers have no stream, and some streams are no files.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            form = getattr(handler.formatter, "_fmt", None)
            yield handler.stream.fileno(), form  # type: ignore[attr-defined]


def _serve(
    worker: connection.Connection,
    duties: collections.abc.Mapping[str, Duty],
) -> None:
    most_bytes = max(duty.max_bytes for duty in duties.values())
    while True:
        header, _, data = worker.recv_bytes(
            _MAX_HEADER_BYTES + most_bytes
        ).partition(_END)
        refusal: tuple[str, str] | None = None
        answer = b""
        try:
            answer = _do(duties, header, data)
        except exceptions.CodedError as error:
            refusal = error.code, error.message
        except Exception as error:
            _OFTEN.exception("a duty failed")
            refusal = codes.DEVICE_FAILED, f"{type(error).__name__}: {error}"
        worker.send_bytes(_joined(refusal, answer))


def _joined(header: object, data: bytes) -> bytes:
    """Return a message: a line of JSON, and data.

    One message wakes the other process once.
    """
    return _END.join((json.dumps(header).encode(), data))


def _do(
    duties: collections.abc.Mapping[str, Duty], header: bytes, data: bytes
) -> bytes:
    """Check a request, and do the duty.

    :raises base.DriverError: ``INVALID_REQUEST``.
    """
    request = shapes.Members(
        {"duty": shapes.one_of(duties), "members": shapes.anything}
    )
    try:
        asked = request(
            untrusted.decode(header, "header", _MAX_HEADER_BYTES, _MAX_DEPTH),
            "",
        )
        duty = duties[asked["duty"]]
        members = duty.members(asked["members"], "members")
        if len(data) > duty.max_bytes:
            raise shapes.Invalid(
                "data", f"must be at most {duty.max_bytes} bytes"
            )
    except ValueError as error:
        raise base.DriverError(
            codes.INVALID_REQUEST, f"the helper's request: {error}"
        ) from error
    return duty.run(data, **members)
