# SPDX-License-Identifier: Apache-2.0

"""The cheroot web server, made strict about malformed requests.

Without this, cheroot uses the last of several Content-Length headers and may
wait forever for a body, buffers chunks of any size, and reuses a connection
even if it would read the rest of a body as the next request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import Protocol

from cheroot import server
from cheroot import wsgi

#: Limits for the request line with all headers, and for the number of headers.
MAX_HEADER_BYTES = 64 << 10
MAX_HEADERS = 100
#: Limit for a chunk of a body without Content-Length.
MAX_CHUNK_BYTES = 16 << 20
_MAX_CHUNK_LINE_BYTES = 1 << 10

_CRLF = b"\r\n"
_HEADER = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\x00-\x08\x0a-\x1f\x7f]*\r\n"
)
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CHUNK_LINE = re.compile(rb"[0-9A-Fa-f]{1,8}[ \t]*(;[^\x00-\x1f\x7f]*)?\r\n")
# If one of these is repeated, a proxy may read the request differently.
_ONCE = {b"content-length", b"transfer-encoding", b"host"}


def make(
    address: tuple[str, int],
    app: Callable[..., Iterable[bytes]],
    threads: int,
    *,
    timeout_s: float = 10,
    stop_s: float = 5,
) -> wsgi.Server:
    """Create a server; ``prepare()`` makes it listen.

    :param address: IP address and port; port 0 means any free port.
    :param threads: maximum number of requests processed at the same time.
    :param timeout_s: how long a client may send nothing.
    :param stop_s: how long ``stop()`` waits for requests in progress.
    """
    made = wsgi.Server(
        address,
        app,
        numthreads=threads,
        # A burst of connections waits to be accepted, instead of being reset.
        request_queue_size=threads,
        timeout=timeout_s,
        shutdown_timeout=stop_s,
    )
    made.max_request_header_size = MAX_HEADER_BYTES
    made.ConnectionClass = _Connection
    return made


class _Lines(Protocol):
    def readline(self) -> bytes: ...


class _CheckedLines:
    """The lines of a request's headers.

    ``readline`` raises ValueError, for which cheroot returns status 400.
    """

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self._names: list[bytes] = []

    def readline(self) -> bytes:
        line = self._lines.readline()
        if line in (b"", _CRLF):
            return line
        header = _HEADER.fullmatch(line)
        # This also rejects continuation lines of folded headers.
        if header is None:
            raise ValueError("Malformed header line")
        name = header[1].lower()
        if name in _ONCE and name in self._names:
            raise ValueError(f"Duplicate header {name.decode()}")
        self._names.append(name)
        if len(self._names) > MAX_HEADERS:
            raise ValueError(f"More than {MAX_HEADERS} headers")
        return line


class _HeaderReader(server.HeaderReader):  # type: ignore[misc]
    def __call__(
        self, rfile: _Lines, hdict: dict[bytes, bytes] | None = None
    ) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = super().__call__(
            _CheckedLines(rfile), hdict
        )
        length = found.get(b"Content-Length")
        if length is not None and not _LENGTH.fullmatch(length):
            raise ValueError("Malformed Content-Length")
        if length is not None and b"Transfer-Encoding" in found:
            raise ValueError("Both Content-Length and Transfer-Encoding")
        return found


class _Chunks:
    """The chunked body of a request."""

    def __init__(self, rfile: Any) -> None:
        self._rfile = rfile

    def readline(self) -> bytes:
        line: bytes = self._rfile.readline(_MAX_CHUNK_LINE_BYTES)
        if not _CHUNK_LINE.fullmatch(line):
            raise ValueError("Malformed chunk length")
        return line

    def read(self, size_bytes: int) -> bytes:
        if size_bytes > MAX_CHUNK_BYTES:
            raise ValueError(
                f"Chunk of {size_bytes} bytes, larger than the limit of"
                f" {MAX_CHUNK_BYTES}"
            )
        data: bytes = self._rfile.read(size_bytes)
        return data

    def close(self) -> None:
        self._rfile.close()


class _Request(server.HTTPRequest):  # type: ignore[misc]
    header_reader = _HeaderReader()

    def read_request_headers(self) -> bool:
        if not super().read_request_headers():
            return False
        if b"Transfer-Encoding" not in self.inheaders:
            return True
        if not self.chunked_read:
            self.simple_response("400 Bad Request", "Transfer-Encoding")
            return False
        self.conn.rfile = _Chunks(self.conn.rfile)
        return True

    def send_headers(self) -> None:
        # Otherwise, the rest of the body would be read as the next request.
        if self.chunked_read or getattr(self.rfile, "remaining", 0):
            self.close_connection = True
        super().send_headers()


class _Connection(server.HTTPConnection):  # type: ignore[misc]
    RequestHandlerClass = _Request
