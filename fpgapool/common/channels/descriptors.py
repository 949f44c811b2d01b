# SPDX-License-Identifier: Apache-2.0

"""Waits for descriptors, even above 1023, where ``select`` fails."""

import select
import socket
import struct
import time
import typing

_CREDENTIALS = struct.Struct("3i")


class _HasDescriptor(typing.Protocol):
    def fileno(self) -> int: ...


def is_readable(file: int | _HasDescriptor, timeout_s: float | None) -> bool:
    """Wait until bytes can be read or the file has ended.

    :param timeout_s: in seconds; None waits without limit.
    """
    poller = select.poll()
    poller.register(file, select.POLLIN)
    return bool(poller.poll(None if timeout_s is None else timeout_s * 1000))


def read_line(file: typing.BinaryIO, timeout_s: float) -> bytes:
    """Read a line from an unbuffered pipe.

    :returns: an incomplete line if the writer has closed the pipe or the
        timeout has expired.
    """
    deadline_s = time.monotonic() + timeout_s
    line = b""
    while not line.endswith(b"\n"):
        if not is_readable(file, max(0.0, deadline_s - time.monotonic())):
            break
        piece = file.read(65536)
        if not piece:
            break
        line += piece
    return line


def peer(sock: socket.socket) -> tuple[int, int]:
    """Return process ID and user ID of a Unix socket's peer."""
    credentials = sock.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    pid, uid, _gid = _CREDENTIALS.unpack(credentials)
    return pid, uid
