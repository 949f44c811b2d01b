# SPDX-License-Identifier: Apache-2.0

"""Sockets, selectors and descriptors of processes, on virtual time.

Unix and TCP stream sockets between the processes of a world. What is sent
arrives in order and at once, unless a connection is broken or a network cut.
"""

from __future__ import annotations

import array
import collections
import errno
import os
import select
import selectors
import signal
import socket
import stat
import struct
import termios
import types
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from tests.world import kernel as kernels

#: Descriptors of the world; lower ones are of the real system.
_FIRST_FD = 1_000_000
#: After so long a host sends the first packet of a connection again.
_FIRST_SYN_S = 1.0
_BUFFER_BYTES = 1 << 20
_CREDENTIALS = struct.Struct("3i")
_READ, _WRITE, _HANG_UP = select.POLLIN, select.POLLOUT, select.POLLHUP
#: Those of the module ``socket`` are slow to compute with.
_DONTWAIT, _WAITALL = int(socket.MSG_DONTWAIT), int(socket.MSG_WAITALL)

_system: System


class _File:
    """What a descriptor stands for.

    :ivar count: of the descriptors that stand for it.
    """

    def __init__(self) -> None:
        self.count = 0
        #: Tasks that wait until something can be done, and for what.
        self.watchers: dict[kernels.Task, int] = {}
        #: Selectors that it is registered with.
        self.selectors: dict[_Selector, None] = {}

    def ready(self) -> int:
        """Return what can be done now, as poll() says it."""
        raise NotImplementedError

    def close(self) -> None:
        """No descriptor stands for it any more."""

    def changed(self) -> None:
        """Something else can be done than before."""
        if not (self.watchers or self.selectors):
            return
        mask = self.ready()
        if not mask:
            return
        for task, wanted in self.watchers.items():
            if mask & wanted:
                _system.kernel.unpark(task)
        for selector in self.selectors:
            selector.note(self, mask)


class _End(_File):
    """One end of a connection."""

    def __init__(self, process: kernels.Process | None) -> None:
        super().__init__()
        self.process = process
        self.other: _End | None = None
        self.host: str | None = None
        self.data = bytearray()
        # What came with a message, and which part of all data ends it.
        self.fds: collections.deque[tuple[int, list[int]]] = (
            collections.deque()
        )
        self.taken_bytes = 0
        self.ended = False
        self.broken = False
        self.shut = False
        self.gone = False

    def ready(self) -> int:
        mask = 0
        if self.data or self.ended or self.broken:
            mask |= _READ
        other = self.other
        # What fails at once does not wait.
        fails = other is None or other.ended or self.broken or self.shut
        if fails or len(other.data) < _BUFFER_BYTES:
            mask |= _WRITE
        if self.broken or (self.ended and self.shut):
            mask |= _HANG_UP
        return mask

    def close(self) -> None:
        self.shut_down()
        self.gone = self.ended = True
        self.data.clear()
        while self.fds:
            for fd in self.fds.popleft()[1]:
                _system.close(fd)
        if self.other is not None:
            # What it would send fails at once from now on.
            self.other.changed()

    def shut_down(self) -> None:
        """Send no more."""
        self.shut = True
        other = self.other
        if other is not None and not other.ended:
            other.ended = True
            other.changed()
        self.changed()

    def break_off(self) -> None:
        """Lose the connection, with what is on its way."""
        for end in (self, self.other):
            if end is not None:
                end.broken = True
                end.data.clear()
                end.changed()

    def send(self, data: bytes, fds: list[int]) -> int:
        other = self.other
        if self.broken:
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        if other is None or other.gone or self.shut:
            raise BrokenPipeError(errno.EPIPE, "broken pipe")
        room = _BUFFER_BYTES - len(other.data)
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "full")
        data = data[:room]
        other.data += data
        if fds:
            end_bytes = other.taken_bytes + len(other.data)
            copies = [_system.duplicate(fd) for fd in fds]
            other.fds.append((end_bytes, copies))
        other.changed()
        return len(data)


class _Listener(_File):
    """A socket that listens."""

    def __init__(self, process: kernels.Process | None) -> None:
        super().__init__()
        self.process = process
        self.limit = 0
        self.waiting: collections.deque[_End] = collections.deque()
        self.closed = False
        self.node: object = None

    def ready(self) -> int:
        return _READ if self.waiting else 0

    def close(self) -> None:
        self.closed = True
        while self.waiting:
            self.waiting.popleft().close()


class _ProcessFile(_File):
    """A pidfd."""

    def __init__(self, process: kernels.Process) -> None:
        super().__init__()
        self.process = process
        if process.alive:
            process.at_exit.append(self.changed)

    def ready(self) -> int:
        return 0 if self.process.alive else _READ


class System:
    """All that the processes of a world share below their own memory.

    :param programs: what starts a process from a command line; named after
        the module that it runs.
    """

    def __init__(
        self,
        kernel: kernels.Kernel,
        programs: Callable[[kernels.Process, list[str]], None],
    ) -> None:
        global _system
        _system = self
        self.kernel = kernel
        self._programs = programs
        self._files: dict[int, tuple[_File, kernels.Process | None]] = {}
        self._next_fd = _FIRST_FD
        self._paths: dict[str, _Listener] = {}
        self._ports: dict[tuple[str, int], _Listener] = {}
        self._next_port = 20000
        self._inodes = 0
        self._locks: dict[object, tuple[kernels.Process, int]] = {}
        self.processes: dict[int, kernels.Process] = {}
        self.on_terminate: dict[int, Callable[[], None]] = {}
        #: Each tells whether nothing gets from one host to another.
        self.cuts: list[Callable[[str | None, str | None], bool]] = []
        #: Where a process runs.
        self.hosts: dict[int, str] = {}
        self.ends: list[_End] = []

    # Processes.

    def start(self, name: str, host: str | None = None) -> kernels.Process:
        """Return a new process without any task."""
        process = self.kernel.process(name)
        self.processes[process.pid] = process
        if host is not None:
            self.hosts[process.pid] = host
        process.at_exit.append(lambda: self._clean_up(process))
        return process

    def _clean_up(self, process: kernels.Process) -> None:
        for fd, (_file, owner) in list(self._files.items()):
            if owner is process:
                self.close(fd)
        for key, (owner, _fd) in list(self._locks.items()):
            if owner is process:
                del self._locks[key]

    def me(self) -> kernels.Process | None:
        task = self.kernel.current
        return None if task is None else task.process

    # Descriptors.

    def add(self, file: _File) -> int:
        self._next_fd += 1
        file.count += 1
        self._files[self._next_fd] = (file, self.me())
        return self._next_fd

    def file(self, fd: int) -> _File:
        if fd not in self._files:
            raise OSError(errno.EBADF, "bad file descriptor")
        return self._files[fd][0]

    def duplicate(self, fd: int) -> int:
        if fd < _FIRST_FD:
            return os.dup(fd)
        copy = self.add(self.file(fd))
        # Whoever receives it has it.
        self._files[copy] = (self._files[copy][0], None)
        return copy

    def own(self, fd: int) -> None:
        """Note that a descriptor has come to the process that asks."""
        if fd in self._files:
            self._files[fd] = (self._files[fd][0], self.me())

    def close(self, fd: int) -> None:
        if fd < _FIRST_FD:
            for key, (_owner, locked) in list(self._locks.items()):
                if locked == fd:
                    del self._locks[key]
            os.close(fd)
            return
        file = self.file(fd)
        del self._files[fd]
        file.count -= 1
        if not file.count:
            file.close()

    def wait(
        self, wanted: Mapping[_File, int], timeout_s: float | None
    ) -> dict[_File, int]:
        """Wait until something can be done.

        :returns: what can be, by file; empty if the time is over.
        """
        kernel = self.kernel
        until_s = None if timeout_s is None else kernel.now_s + timeout_s
        while True:
            found = {}
            for file, mask in wanted.items():
                got = file.ready() & (mask | _HANG_UP)
                if got:
                    found[file] = got
            left_s = None if until_s is None else until_s - kernel.now_s
            if found or (left_s is not None and left_s <= 0):
                return found
            task = kernel.task()
            for file, mask in wanted.items():
                file.watchers[task] = mask | _HANG_UP
            kernel.park(left_s)
            for file in wanted:
                file.watchers.pop(task, None)

    def runs(self, pid: int, module: str) -> bool:
        """Whether a process runs a module."""
        process = self.processes.get(pid)
        return (
            process is not None and process.alive and process.module == module
        )

    # Names.

    def bind(self, address: object, listener: _Listener) -> None:
        if isinstance(address, str):
            if address in self._paths:
                raise OSError(errno.EADDRINUSE, "address in use")
            self._inodes += 1
            listener.node = self._inodes
            self._paths[address] = listener
            return
        host, port = typing.cast(tuple[str, int], address)
        if not port:
            self._next_port += 1
            port = self._next_port
        known = self._ports.get((host, port))
        if known is not None and not known.closed:
            raise OSError(errno.EADDRINUSE, "address in use")
        listener.node = (host, port)
        self._ports[host, port] = listener

    def connect(self, address: object) -> _End:
        process = self.me()
        target = (
            self._paths.get(address)
            if isinstance(address, str)
            else self._ports.get(typing.cast(tuple[str, int], address))
        )
        if target is None and isinstance(address, str):
            raise FileNotFoundError(errno.ENOENT, "no such file", address)
        if target is None or target.closed or not target.limit:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        here = self._host(process)
        there = self._host(target.process)
        if not isinstance(address, str) and any(
            cut(here, there) or cut(there, here) for cut in self.cuts
        ):
            raise TimeoutError(errno.ETIMEDOUT, "timed out")
        if len(target.waiting) >= target.limit:
            raise BlockingIOError(errno.EAGAIN, "full")
        mine, other = _End(process), _End(target.process)
        mine.other, other.other = other, mine
        mine.host, other.host = here, there
        if not isinstance(address, str):
            self.ends.append(mine)
        target.waiting.append(other)
        target.changed()
        return mine

    def _host(self, process: kernels.Process | None) -> str | None:
        return None if process is None else self.hosts.get(process.pid)

    def break_connections(
        self, chosen: Callable[[str | None, str | None], bool]
    ) -> int:
        """Break TCP connections between hosts that are chosen."""
        broken = 0
        for end in self.ends:
            other = end.other
            if (
                other is not None
                and end.count
                and not end.broken
                and chosen(end.host, other.host)
            ):
                end.break_off()
                broken += 1
        self.ends = [end for end in self.ends if not end.broken]
        return broken

    # What replaces functions of the module os and the like.

    def unlink(self, path: object) -> None:
        if path in self._paths:
            del self._paths[str(path)]
        else:
            os.unlink(str(path))

    def rename(self, old: str, new: str) -> None:
        if old in self._paths:
            self._paths[new] = self._paths.pop(old)
        else:
            os.rename(old, new)

    def chmod(self, path: str, mode: int) -> None:
        if path not in self._paths:
            os.chmod(path, mode)

    def stat(self, path: str) -> object:
        listener = self._paths.get(path)
        if listener is None:
            return os.stat(path)
        return types.SimpleNamespace(
            st_ino=listener.node, st_mode=stat.S_IFSOCK | 0o600, st_uid=0
        )

    def flock(self, fd: int, _operation: int) -> None:
        status = os.fstat(fd)
        key = status.st_dev, status.st_ino
        process = self.me()
        holder = self._locks.get(key)
        if holder is not None and holder[0].alive:
            raise BlockingIOError(errno.EAGAIN, "locked")
        assert process is not None
        self._locks[key] = process, fd

    def ioctl(self, sock: Socket, request: int, _room: bytes) -> bytes:
        assert request == termios.TIOCOUTQ
        other = sock._end().other
        return struct.pack("i", 0 if other is None else len(other.data))

    def pidfd_open(self, pid: int) -> int:
        process = self.processes.get(pid)
        if process is None or not process.alive:
            raise ProcessLookupError(errno.ESRCH, "no such process")
        return self.add(_ProcessFile(process))

    def waitid(self, _kind: int, fd: int, _options: int) -> object:
        process = typing.cast(_ProcessFile, self.file(fd)).process
        if process.alive:
            return None
        me = self.me()
        if process.parent is not me:
            raise ChildProcessError(errno.ECHILD, "not a child")
        status = process.exit_status
        assert status is not None
        return types.SimpleNamespace(
            si_code=os.CLD_EXITED if status >= 0 else os.CLD_KILLED,
            si_status=abs(status),
        )

    def signal(self, fd: int, number: int) -> None:
        process = typing.cast(_ProcessFile, self.file(fd)).process
        if not process.alive:
            raise ProcessLookupError(errno.ESRCH, "no such process")
        if number == signal.SIGKILL:
            process.kill()
        elif process.pid in self.on_terminate:
            self.on_terminate[process.pid]()
        else:
            process.kill(-number)

    def exit(self, status: int) -> None:
        process = self.me()
        assert process is not None
        process.kill(status)
        self.kernel.park()

    def posix_spawn(
        self, _path: str, arguments: list[str], *_args: object, **_kw: object
    ) -> int:
        parent = self.me()
        assert parent is not None
        *_, module, _settings = arguments
        process = self.start(
            f"{module.rpartition('.')[2]} of {parent.name}",
            self.hosts.get(parent.pid),
        )
        process.module = module
        process.parent = parent
        process.wall_offset_s = parent.wall_offset_s
        self._programs(process, arguments)
        return process.pid

    def modules(self) -> dict[str, object]:
        """Return what replaces modules of the standard library."""
        return {
            "os": _module(
                os,
                close=self.close,
                getpid=lambda: self._pid(),
                unlink=self.unlink,
                rename=self.rename,
                chmod=self.chmod,
                stat=self.stat,
                lstat=self.stat,
                pidfd_open=self.pidfd_open,
                waitid=self.waitid,
                posix_spawn=self.posix_spawn,
                _exit=self.exit,
            ),
            "fcntl": _module(
                __import__("fcntl"), flock=self.flock, ioctl=self.ioctl
            ),
            "signal": _module(signal, pidfd_send_signal=self.signal),
            "select": _module(select, poll=_Poll),
            "selectors": _module(selectors, DefaultSelector=_Selector),
            "socket": _module(
                socket,
                socket=Socket,
                socketpair=_socketpair,
                create_connection=_create_connection,
            ),
        }

    def _pid(self) -> int:
        process = self.me()
        return os.getpid() if process is None else process.pid


def _module(
    original: types.ModuleType, **replaced: object
) -> types.ModuleType:
    from tests.world import system

    return system._Module(original, **replaced)


class Socket:
    """As :class:`socket.socket`, for stream sockets."""

    def __init__(
        self,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,
        proto: int = 0,
        fileno: int | None = None,
    ) -> None:
        self.family = family
        self._file: _File | None = None
        self._fd = -1
        self._timeout_s: float | None = None
        self._closed = False
        if fileno is not None:
            self._fd = fileno
            self._file = _system.file(fileno)
            _system.own(fileno)
            self.family = socket.AF_UNIX

    def _take(self, file: _File) -> Socket:
        self._file = file
        self._fd = _system.add(file)
        return self

    def fileno(self) -> int:
        return self._fd

    def _end(self) -> _End:
        if self._closed:
            raise OSError(errno.EBADF, "bad file descriptor")
        if not isinstance(self._file, _End):
            raise OSError(errno.ENOTCONN, "not connected")
        return self._file

    def setblocking(self, blocking: bool) -> None:
        self._timeout_s = None if blocking else 0.0

    def settimeout(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s

    def setsockopt(self, *_arguments: object) -> None:
        """Nothing: there is nothing to tune."""

    def getsockopt(self, _level: int, option: int, _size: int = 0) -> object:
        if option != socket.SO_PEERCRED:
            return 0
        other = self._end().other
        process = None if other is None else other.process
        return _CREDENTIALS.pack(process.pid if process else 0, 0, 0)

    def bind(self, address: object) -> None:
        listener = _Listener(_system.me())
        _system.bind(address, listener)
        self._take(listener)

    def listen(self, backlog: int = 128) -> None:
        assert isinstance(self._file, _Listener)
        self._file.limit = backlog

    def getsockname(self) -> object:
        assert isinstance(self._file, _Listener)
        return self._file.node

    def accept(self) -> tuple[Socket, object]:
        listener = self._file
        if self._closed or not isinstance(listener, _Listener):
            raise OSError(errno.EBADF, "bad file descriptor")
        if not listener.waiting and self._timeout_s != 0.0:
            _system.wait({listener: _READ}, self._timeout_s)
        if not listener.waiting:
            raise BlockingIOError(errno.EAGAIN, "nobody waits")
        accepted = Socket(self.family)._take(listener.waiting.popleft())
        return accepted, ("192.0.2.1", 1)

    def connect(self, address: object) -> None:
        self._take(_system.connect(address))

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = self._end().data
        waiting_bytes = len(data)
        if waiting_bytes and not flags:
            if waiting_bytes <= size and waiting_bytes < _BUFFER_BYTES:
                piece = bytes(data)
                self._end().taken_bytes += waiting_bytes
                data.clear()
                return piece
            # Callers have room for far more than what mostly comes.
            size = min(size, waiting_bytes)
        buffer = memoryview(bytearray(size))
        return bytes(buffer[: self.recv_into(buffer, size, flags)])

    def recv_into(
        self, buffer: memoryview, size: int = 0, flags: int = 0
    ) -> int:
        wanted = len(buffer) if not size else min(size, len(buffer))
        filled = 0
        while True:
            end = self._end()
            if not end.data and not (end.ended or end.broken):
                if self._timeout_s == 0.0 or int(flags) & _DONTWAIT:
                    raise BlockingIOError(errno.EAGAIN, "nothing is there")
                if not _system.wait({end: _READ}, self._timeout_s):
                    raise TimeoutError(errno.ETIMEDOUT, "timed out")
                continue
            if end.broken:
                raise ConnectionResetError(errno.ECONNRESET, "reset")
            count = min(wanted - filled, len(end.data))
            was_full = len(end.data) >= _BUFFER_BYTES
            buffer[filled : filled + count] = end.data[:count]
            del end.data[:count]
            end.taken_bytes += count
            filled += count
            if was_full and count and end.other is not None:
                end.other.changed()
            whole = filled == wanted or not int(flags) & _WAITALL
            if whole or (not end.data and end.ended):
                return filled

    def recvmsg_into(
        self, buffers: Iterable[memoryview], _room: int = 0, flags: int = 0
    ) -> tuple[int, list[tuple[int, int, bytes]], int, None]:
        (buffer,) = buffers
        end = self._end()
        size = len(buffer)
        if end.fds:
            # Messages with descriptors are not joined with the next ones.
            size = min(size, end.fds[0][0] - end.taken_bytes)
        count = self.recv_into(buffer, size)
        ancillary = []
        if count and end.fds:
            _, fds = end.fds.popleft()
            for fd in fds:
                _system.own(fd)
            ancillary.append(
                (
                    socket.SOL_SOCKET,
                    socket.SCM_RIGHTS,
                    array.array("i", fds).tobytes(),
                )
            )
        return count, ancillary, 0, None

    def send(self, data: typing.Any, flags: int = 0) -> int:
        return self.sendmsg([data], (), flags)

    def sendmsg(
        self,
        buffers: Iterable[typing.Any],
        ancillary: Iterable[tuple[int, int, typing.Any]] = (),
        flags: int = 0,
    ) -> int:
        fds: list[int] = []
        for _level, _kind, content in ancillary:
            numbers = array.array("i")
            numbers.frombytes(bytes(content))
            fds += numbers
        data = b"".join(buffers)
        _system.kernel.point()
        blocks = self._timeout_s != 0.0 and not int(flags) & _DONTWAIT
        sent = 0
        while True:
            end = self._end()
            try:
                sent += end.send(data[sent:], fds)
                fds = []
            except BlockingIOError:
                if not blocks:
                    if sent:
                        return sent
                    raise
                _system.wait({end: _WRITE}, self._timeout_s)
            if sent == len(data) or not blocks:
                return sent

    def sendall(self, data: bytes) -> None:
        self.send(data)

    def shutdown(self, how: int) -> None:
        end = self._end()
        if how != socket.SHUT_RD:
            end.shut_down()
        if how != socket.SHUT_WR:
            end.ended = True
            end.changed()
            if end.other is not None:
                end.other.changed()

    def detach(self) -> int:
        fd, self._fd, self._closed = self._fd, -1, True
        return fd

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        fd, self._fd = self._fd, -1
        if fd != -1:
            _system.close(fd)

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _socketpair(*_arguments: object) -> tuple[Socket, Socket]:
    process = _system.me()
    one, two = _End(process), _End(process)
    one.other, two.other = two, one
    return (
        Socket(socket.AF_UNIX)._take(one),
        Socket(socket.AF_UNIX)._take(two),
    )


def _create_connection(
    address: object, timeout: float | None = None
) -> Socket:
    sock = Socket(socket.AF_INET)
    left_s = 10.0 if timeout is None else timeout
    pause_s = _FIRST_SYN_S
    while True:
        try:
            sock.connect(address)
        except TimeoutError:
            if left_s <= 0.0:
                raise
            # The kernel tries again, after twice the time.
            pause_s = min(pause_s, left_s)
            _system.kernel.sleep(pause_s)
            left_s -= pause_s
            pause_s *= 2
        else:
            sock.settimeout(timeout)
            return sock


def _number(file: object) -> int:
    return file if isinstance(file, int) else file.fileno()  # type: ignore


class _Poll:
    """As what :func:`select.poll` returns."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, file: object, events: int) -> None:
        number = _number(file)
        if number < 0:
            raise ValueError("the file is closed")
        self._wanted[number] = events

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        files = {_system.file(fd): fd for fd in self._wanted}
        found = _system.wait(
            {file: self._wanted[fd] for file, fd in files.items()},
            None if timeout_ms is None else timeout_ms / 1000,
        )
        return [(files[file], mask) for file, mask in found.items()]


class _Selector:
    """As :class:`selectors.DefaultSelector`."""

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._numbers: dict[_File, int] = {}
        self._files: dict[int, _File] = {}
        self._wanted: dict[_File, int] = {}
        #: Files that may be ready, in the order in which they became it.
        self._ready: dict[_File, None] = {}
        self._task: kernels.Task | None = None

    def note(self, file: _File, mask: int) -> None:
        """Something can be done with a file."""
        if mask & self._wanted[file]:
            self._ready[file] = None
            if self._task is not None:
                _system.kernel.unpark(self._task)

    def register(
        self, fileobj: typing.Any, events: int, data: object = None
    ) -> selectors.SelectorKey:
        number = _number(fileobj)
        if number < 0:
            raise ValueError("the file is closed")
        if number in self._keys:
            raise KeyError("registered already")
        file = self._files[number] = _system.file(number)
        self._numbers[file] = number
        return self._set(selectors.SelectorKey(fileobj, number, events, data))

    def modify(
        self, fileobj: typing.Any, events: int, data: object = None
    ) -> selectors.SelectorKey:
        number = self._find(fileobj)
        return self._set(selectors.SelectorKey(fileobj, number, events, data))

    def _set(self, key: selectors.SelectorKey) -> selectors.SelectorKey:
        self._keys[key.fd] = key
        file = self._files[key.fd]
        mask = _HANG_UP
        if key.events & selectors.EVENT_READ:
            mask |= _READ
        if key.events & selectors.EVENT_WRITE:
            mask |= _WRITE
        self._wanted[file] = mask
        file.selectors[self] = None
        self.note(file, file.ready())
        return key

    def unregister(self, fileobj: typing.Any) -> selectors.SelectorKey:
        number = self._find(fileobj)
        self._forget(self._files[number])
        return self._keys.pop(number)

    def _forget(self, file: _File) -> None:
        del self._files[self._numbers.pop(file)], self._wanted[file]
        self._ready.pop(file, None)
        file.selectors.pop(self, None)

    def _find(self, fileobj: typing.Any) -> int:
        number = _number(fileobj)
        if number in self._keys:
            return number
        # It is closed.
        for number, key in self._keys.items():
            if key.fileobj is fileobj or key.fileobj == fileobj:
                return number
        raise KeyError("not registered")

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        kernel = _system.kernel
        until_s = None if timeout is None else kernel.now_s + timeout
        while True:
            found = list(self._found()) if self._ready else []
            left_s = None if until_s is None else until_s - kernel.now_s
            if found or (left_s is not None and left_s <= 0):
                return found
            self._task = kernel.task()
            kernel.park(left_s)
            self._task = None

    def _found(self) -> Iterator[tuple[selectors.SelectorKey, int]]:
        for file in list(self._ready):
            mask = file.ready() & self._wanted[file]
            if not mask:
                del self._ready[file]
                continue
            key = self._keys[self._numbers[file]]
            events = 0
            if mask & (_READ | _HANG_UP):
                events |= selectors.EVENT_READ & key.events
            if mask & (_WRITE | _HANG_UP):
                events |= selectors.EVENT_WRITE & key.events
            if events:
                yield key, events

    def close(self) -> None:
        for file in list(self._numbers):
            self._forget(file)
        self._keys.clear()
