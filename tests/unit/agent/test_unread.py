# SPDX-License-Identifier: Apache-2.0

"""An agent keeps the buffers of sessions that are over, for a while."""

import fcntl
import os
import socket

import pytest

from fpgapool.agent.supervision import unread
from tests.harness import mapping

pytestmark = pytest.mark.security

KEY, OTHER = ("board0", 0), ("board0", 1)


class Timers:
    """Takes the place of the loop."""

    def __init__(self):
        self.due = []

    def call_later(self, delay_s, callback):
        assert delay_s == unread.UNREAD_S
        self.due.append(callback)


@pytest.fixture
def timers():
    return Timers()


@pytest.fixture
def kept(timers):
    made = unread.Unread(timers, mapping.SESSION_BYTES)
    yield made
    made.close()


def are_closed(fds):
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    return True


def test_what_a_client_may_be_reading_stays_for_a_while(kept, timers):
    client = mapping.ClientEnd()
    fds = client.leave()
    kept.keep(KEY, fds)
    assert client.is_whole
    timers.due.pop()()
    assert client.is_empty
    assert are_closed(fds)


def test_the_oldest_are_emptied_if_there_are_too_many(kept, timers):
    clients = [mapping.ClientEnd() for _ in range(unread.SESSIONS + 2)]
    first, second, *others = clients
    kept.keep(OTHER, first.leave())
    for client in clients[1:]:
        kept.keep(KEY, client.leave())
    assert second.is_empty
    assert first.is_whole
    assert all(client.is_whole for client in others)
    # The timer of the one that is gone already empties no other.
    timers.due[1]()
    assert all(client.is_whole for client in others)
    for due in timers.due:
        due()
    assert all(client.is_empty for client in [first, *others])


def test_buffers_that_are_larger_than_sessions_have_are_not_kept(timers):
    client = mapping.ClientEnd()
    kept = unread.Unread(timers, mapping.SESSION_BYTES // unread.SESSIONS - 2)
    kept.keep(KEY, client.leave())
    assert client.is_empty


def test_an_agent_that_ends_leaves_the_buffers_to_their_clients(kept):
    client = mapping.ClientEnd()
    fds = client.leave()
    kept.keep(KEY, fds)
    kept.close()
    assert client.is_whole
    assert are_closed(fds)


def unsealed():
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096)
    return fd


def read_only():
    """Make memory that could not be emptied."""
    fd = unsealed()
    seals = (
        fcntl.F_SEAL_SHRINK
        | fcntl.F_SEAL_GROW
        | fcntl.F_SEAL_WRITE
        | fcntl.F_SEAL_SEAL
    )
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def of_a_file():
    return os.open(__file__, os.O_RDONLY)


def of_a_socket():
    return socket.socket().detach()


@pytest.mark.parametrize("make", [unsealed, read_only, of_a_file, of_a_socket])
def test_other_descriptors_are_closed_at_once(kept, timers, make):
    fds = [*mapping.ClientEnd().leave()[:1], make()]
    with pytest.raises(ValueError, match=r"memory|descriptor"):
        kept.keep(KEY, fds)
    assert are_closed(fds)
    assert timers.due == []


@pytest.mark.parametrize("count", [0, 1, 3])
def test_so_many_descriptors_are_those_of_no_session(kept, timers, count):
    fds = (mapping.ClientEnd().leave() + mapping.ClientEnd().leave())[:count]
    with pytest.raises(ValueError, match=f"got {count}"):
        kept.keep(KEY, fds)
    assert are_closed(fds)
    assert timers.due == []


def test_empty_memory_is_closed_as_well(kept, timers, caplog):
    """A worker that lies takes nothing but its own time."""
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fds = [os.memfd_create("test", os.MFD_ALLOW_SEALING) for _ in range(2)]
    for fd in fds:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    kept.keep(KEY, fds)
    timers.due.pop()()
    assert are_closed(fds)
    assert "Cannot clear" in caplog.text
