# SPDX-License-Identifier: Apache-2.0

"""What the web server of an all-in-one pool makes of requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest

from fpgapool.allinone import webserver

PATIENCE_S = 20.0
POST = b"POST /x HTTP/1.1\r\nHost: localhost\r\n"


def echo(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
    """Answer with the body, or with what is wrong with it.

    For ``/ignore`` the body is left unread.
    """
    status, body = "200 OK", b""
    try:
        if environ["PATH_INFO"] != "/ignore":
            while piece := environ["wsgi.input"].read(1000):
                body += piece
    except (OSError, ValueError) as error:
        status, body = "400 Bad Request", str(error).encode()
    start(status, [("Content-Length", str(len(body)))])
    return [body]


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[..., bytes]]:
    """Give a function that sends bytes and returns all that comes back."""
    server = webserver.make(("127.0.0.1", 0), echo, 2, timeout_s=0.5)
    server.error_log = lambda *_args, **_options: None
    server.prepare()
    thread = threading.Thread(target=server.serve)
    thread.start()

    def send(data: bytes, *, ends: bool = True) -> bytes:
        with socket.create_connection(server.bind_addr, PATIENCE_S) as sock:
            sock.sendall(data)
            if ends:
                sock.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := sock.recv(1 << 16):
                answer += piece
        return answer

    try:
        yield send
    finally:
        server.stop()
        thread.join()


def test_a_burst_of_connections_waits_to_be_accepted():
    server = webserver.make(("127.0.0.1", 0), echo, 40)
    server.prepare()
    request = POST + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi"
    thread = threading.Thread(target=server.serve)
    socks: list[socket.socket] = []
    try:
        # Nobody accepts them yet.
        for _ in range(40):
            sock = socket.create_connection(server.bind_addr, PATIENCE_S)
            socks.append(sock)
            sock.sendall(request)
        thread.start()
        for sock in socks:
            assert sock.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
    finally:
        for sock in socks:
            sock.close()
        server.stop()
        if thread.is_alive():
            thread.join()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.security
@pytest.mark.parametrize(
    "headers",
    [
        [b"Content-Length: 5", b"Content-Length: 500"],
        [b"Content-Length: 5", b"content-length: 5"],
        [b"Content-Length: 5, 5"],
        [b"Content-Length: +5"],
        [b"Content-Length: -5"],
        [b"Content-Length: 0x5"],
        [b"Content-Length: 5_0"],
        [b"Content-Length:"],
        [b"Content-Length: " + b"9" * 30],
        [b"Content-Length : 5"],
        [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding : chunked"],
        [b"Transfer-Encoding:"],
        [b"Host: localhost"],
        [b"A: b", b" c"],
        [b"A: b", b"\tContent-Length: 5"],
        [b"no colon"],
        [b": b"],
        [b"A: b\rContent-Length: 5"],
        [b"A: \0"],
        [b"A: b"] * webserver.MAX_HEADERS,
        [b"A: b"] * 1000,
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_at_once(ask, headers):
    request = POST + b"".join(line + b"\r\n" for line in headers) + b"\r\n"
    # Nobody waits for a body: the client goes on listening.
    answer = ask(request + b"12345", ends=False)
    assert status_of(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n", 501),
        (b"POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /x\r\n\r\n", 400),
        (b"GET /x HTTP/2.0\r\n\r\n", 505),
        (b"GET /" + b"x" * (70 << 10) + b" HTTP/1.1\r\n\r\n", 414),
        (POST + b"A: " + b"x" * (70 << 10) + b"\r\n\r\n", 413),
        # The rest does not come.
        (POST + b"Content-Length: 5\r\n\r\n12", 400),
        (POST + b"Content-Length: 5", 408),
        (POST, 408),
    ],
)
def test_what_is_wrong_or_late_is_refused(ask, request_, status):
    assert status_of(ask(request_, ends=False)) == status


@pytest.mark.security
@pytest.mark.parametrize(
    "body",
    [
        b"-5\r\n12345\r\n0\r\n\r\n",
        b"+5\r\n12345\r\n0\r\n\r\n",
        b"0x5\r\n12345\r\n0\r\n\r\n",
        b"5_0\r\n12345\r\n0\r\n\r\n",
        b"5\n12345\r\n0\r\n\r\n",
        b"5\r\n12345678\r\n0\r\n\r\n",
        b"7fffffff\r\n12345",
        b"fffffffffffffff\r\n12345",
        b"5;" + b"x" * 5000 + b"\r\n12345\r\n0\r\n\r\n",
        b"\r\n",
    ],
)
def test_chunks_that_are_wrong_or_too_long_are_refused(ask, body):
    answer = ask(POST + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert status_of(answer) == 400


def test_right_requests_are_answered_in_their_order(ask):
    one = POST + b"Content-Length: 5\r\n\r\n"
    answer = ask(one + b"first" + one + b"other" + POST + b"\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.index(b"first") < answer.index(b"other")
    chunked = POST + b"transfer-encoding: Chunked\r\n\r\n"
    answer = ask(
        chunked + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: z\r\n\r\n"
    )
    assert answer.endswith(b"\r\n\r\nabcde")
    answer = ask(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


@pytest.mark.security
@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: %d\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n",
    ],
)
def test_an_unread_body_is_not_taken_for_a_request(ask, body):
    hidden = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"
    first = b"POST /ignore HTTP/1.1\r\nHost: localhost\r\n"
    answer = ask(first + body % len(hidden) + hidden)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in answer
