# SPDX-License-Identifier: Apache-2.0

"""Strangers at a worker's data port."""

from __future__ import annotations

import errno
import os
import re
import selectors
import socket
from unittest import mock

import pytest

from fpgapool.agent.child import port
from fpgapool.agent.worker import hello
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.protocol import frames
from tests.harness import waiting

pytestmark = pytest.mark.security


@pytest.fixture
def settings(tmp_path):
    return worker_settings.WorkerSettings(
        worker_id="board0.0",
        device="board0",
        slot=0,
        state_dir=str(tmp_path),
        control_socket=str(tmp_path / "control.sock"),
        data_socket=str(tmp_path / "data.sock"),
        driver="module:Class",
    )


@pytest.mark.parametrize(
    "first_bytes",
    [
        pytest.param(bytes(frames.HEADER_BYTES), id="nonsense"),
        pytest.param(frames.FrameHeader(frames.ACK).pack(), id="no HELLO"),
        pytest.param(b"", id="gone at once"),
    ],
)
def test_strangers_do_not_fill_the_log(settings, caplog, first_bytes):
    caplog.set_level("INFO")
    data_port = port.DataPort(
        settings, mock.Mock(name="serve"), None, hello.parse
    )
    with selectors.DefaultSelector() as selector:
        data_port.register(selector)
        for _ in range(100):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.settimeout(waiting.LIMIT_S)
                stranger.connect(settings.data_socket)
                stranger.sendall(first_bytes)
                stranger.shutdown(socket.SHUT_WR)
                for key, _ in selector.select(waiting.LIMIT_S):
                    key.data(key.fileobj)
                while stranger.recv(4096):
                    """Told why; what counts is the end."""
    data_port.close()
    about_strangers = [
        record for record in caplog.records if record.name == port.__name__
    ]
    assert 1 <= len(about_strangers) <= 10


def test_a_socket_that_cannot_be_made_is_named(tmp_path):
    path = str(tmp_path / "missing" / "data.sock")
    with pytest.raises(OSError, match=re.escape(path)):
        port.listen_unix(path)


class Listener:
    """A socket at which accepting fails."""

    def __init__(self, error: int) -> None:
        self.error, self.count = error, 0

    def accept(self) -> None:
        self.count += 1
        raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize(
    ("error", "pauses"),
    [(errno.EMFILE, 1), (errno.ENOMEM, 1), (errno.EAGAIN, 0)],
)
def test_a_client_that_cannot_be_accepted_is_tried_later(
    monkeypatch, error, pauses
):
    """Else the process would do nothing else."""
    slept = []
    monkeypatch.setattr(port.time, "sleep", slept.append)
    log = mock.Mock()
    assert port.accepted(Listener(error), "a client", log) is None
    assert log.warning.call_count == pauses
    assert len(slept) == pauses


def test_a_client_without_a_thread_is_dropped(settings, monkeypatch):
    """The next one is accepted again."""
    data_port = port.DataPort(
        settings, mock.Mock(name="serve"), None, hello.parse
    )
    monkeypatch.setattr(
        port.crew.CREW, "start", mock.Mock(side_effect=RuntimeError("none"))
    )
    with selectors.DefaultSelector() as selector:
        data_port.register(selector)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(waiting.LIMIT_S)
            client.connect(settings.data_socket)
            for key, _ in selector.select(waiting.LIMIT_S):
                key.data(key.fileobj)
            assert client.recv(1) == b""
    assert len(data_port._strangers) == 0
    data_port.close()
