# SPDX-License-Identifier: Apache-2.0

"""Short frames while another thread sends a long one."""

import threading
import types

import pytest

from fpgapool.client.sessions import behind
from fpgapool.common.channels import channel

TIMEOUT_S = 30


class Connection:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.error: Exception | None = None
        self.channel = types.SimpleNamespace(send=self._send)

    def _send(self, frame: bytes, deadline_s: float | None) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append(frame)


@pytest.fixture
def sending() -> threading.Lock:
    return threading.Lock()


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def late(sending: threading.Lock) -> behind.Behind:
    return behind.Behind(sending)


def test_a_frame_goes_at_once(
    late: behind.Behind, connection: Connection
) -> None:
    late.send(b"one", lambda: connection, None)
    assert connection.sent == [b"one"]


def test_frames_go_behind_what_is_being_sent(
    late: behind.Behind, sending: threading.Lock, connection: Connection
) -> None:
    with sending:
        late.send(b"one", lambda: connection, None)
        late.send(b"two", lambda: connection, None)
        assert connection.sent == []
    late.flush(lambda: connection, None)
    late.flush(lambda: connection, None)
    assert connection.sent == [b"one", b"two"]


def test_a_lost_connection_is_no_error(
    late: behind.Behind, connection: Connection
) -> None:
    connection.error = channel.ChannelClosed("gone")
    late.send(b"one", lambda: connection, None)
    connection.error = None
    late.send(b"two", lambda: connection, None)
    assert connection.sent == [b"two"]


def test_what_is_left_does_not_go_over_another_connection(
    late: behind.Behind, sending: threading.Lock, connection: Connection
) -> None:
    with sending:
        late.send(b"one", lambda: connection, None)
        late.drop()
    late.send(b"two", lambda: connection, None)
    assert connection.sent == [b"two"]


def test_a_deadline_is_one(
    late: behind.Behind, sending: threading.Lock, connection: Connection
) -> None:
    connection.error = channel.DeadlineExceeded("late")
    with pytest.raises(channel.DeadlineExceeded):
        late.send(b"one", lambda: connection, 0.0)
    assert not sending.locked()


def test_no_frame_is_left_or_doubled(
    late: behind.Behind, sending: threading.Lock, connection: Connection
) -> None:
    """One thread sends long frames, the other one short ones meanwhile."""
    frames = [b"%d" % number for number in range(2000)]
    done = threading.Event()

    def send_long_ones() -> None:
        while not done.is_set():
            with sending:
                pass
            late.flush(lambda: connection, None)

    thread = threading.Thread(target=send_long_ones)
    thread.start()
    for frame in frames:
        late.send(frame, lambda: connection, None)
    done.set()
    thread.join(TIMEOUT_S)
    assert connection.sent == frames
