# SPDX-License-Identifier: Apache-2.0

"""The sample for uWSGI, run: who reaches the API's socket, and with what."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import pytest

from tests.functional.packaging import uwsgi_server
from tests.services import process

pytestmark = [
    pytest.mark.security,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="only root can act for other accounts"
    ),
]

PROXY = (64002, uwsgi_server.GROUP_ID)
STRANGER = (64003, 64003)


@pytest.fixture(scope="module")
def uwsgi(
    service_workspace: process.Workspace,
) -> Iterator[uwsgi_server.Uwsgi]:
    """Give the server, running."""
    server = uwsgi_server.Uwsgi("uwsgi-sample", service_workspace)
    server.start()
    yield server
    server.kill()


def _uwsgi_request(**variables: str) -> bytes:
    """Return a request in uWSGI's own protocol."""
    body = b"".join(
        struct.pack("<H", len(word)) + word
        for pair in variables.items()
        for word in map(str.encode, pair)
    )
    return struct.pack("<BHB", 0, len(body), 0) + body


def _intrusion(server: uwsgi_server.Uwsgi) -> bytes:
    return _uwsgi_request(
        REQUEST_METHOD="GET",
        SERVER_PROTOCOL="HTTP/1.0",
        HTTP_HOST="fpga.example.org",
        # No application is loaded there yet.
        SCRIPT_NAME="/intruder",
        PATH_INFO="/",
        UWSGI_FILE=str(server.intruder),
    )


def test_a_stranger_does_not_reach_the_socket(uwsgi):
    """Else every account of the machine could run code as the service."""
    with pytest.raises(PermissionError):
        uwsgi_server.ask(STRANGER, uwsgi, _intrusion(uwsgi))
    assert not uwsgi.marker.exists()


def test_the_proxy_has_its_requests_answered(uwsgi):
    answer = uwsgi_server.ask(PROXY, uwsgi, uwsgi_server.REQUEST)
    assert answer.endswith(b"\r\n\r\nhttpsfpga.example.org")
    # A connection serves one request.
    assert b"\r\nConnection: close\r\n" in answer


def test_the_proxy_does_not_choose_what_is_run(uwsgi):
    headers = (
        f"GET /intruder HTTP/1.0\r\nHost: fpga.example.org\r\n"
        f"SCRIPT_NAME: /intruder\r\nUWSGI_FILE: {uwsgi.intruder}\r\n\r\n"
    ).encode()
    for request in (_intrusion(uwsgi), headers):
        answer = uwsgi_server.ask(PROXY, uwsgi, request)
        assert b"intruder" not in answer
    assert not uwsgi.marker.exists()
