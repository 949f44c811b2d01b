# SPDX-License-Identifier: Apache-2.0

"""What workers and desks receive from their agent."""

import array
import os
import queue
import socket
from unittest import mock

import pytest

from fpgapool.agent.child import control
from fpgapool.protocol import messages

pytestmark = pytest.mark.security

LIMIT_S = 60.0
STATUS = messages.encode(messages.request(1, "status"))
DESK = messages.encode(messages.request(2, "desk", connected=True))


class Child:
    """A process that takes a descriptor when it is asked to."""

    def __init__(self):
        self.calls = queue.SimpleQueue()
        self.newest = control.Newest(
            self.calls.put, self.obey, lambda: None, self.went
        )
        self.inodes = []
        self.is_alone = True

    def obey(self, message):
        if "connected" in message:
            fd = self.newest.take_fd()
            self.inodes.append(None if fd is None else inode_of(fd))
        return {}

    def went(self):
        self.is_alone = True

    def accept(self):
        """Let an agent connect, and return its end."""
        self.is_alone = False
        ours, theirs = socket.socketpair()
        self.newest.accept(mock.Mock(accept=lambda: (theirs, None)))
        self.do()
        return ours

    def do(self, count=1):
        """Carry out calls for the main thread."""
        for _ in range(count):
            self.calls.get(timeout=LIMIT_S)()

    def lose(self):
        """Carry out calls until the agent is gone."""
        while not self.is_alone:
            self.do()


def inode_of(fd):
    found = os.fstat(fd).st_ino
    os.close(fd)
    return found


def send(sock, data, *fds):
    """Send data with descriptors of pipes, and return the pipes' inodes."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
    sock.sendmsg([data], [rights] if fds else [])
    return [inode_of(fd) for fd in fds]


def pipe():
    ours, theirs = os.pipe()
    os.close(theirs)
    return ours


@pytest.fixture
def child():
    before = len(os.listdir("/proc/self/fd"))
    made = Child()
    yield made
    made.lose()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_request_takes_the_descriptor_that_came_with_it(child):
    with child.accept() as agent:
        send(agent, STATUS)
        sent = send(agent, DESK, pipe()) + send(agent, DESK, pipe())
        send(agent, STATUS)
        child.do(4)
    assert child.inodes == sent
    assert None not in sent


def test_a_request_may_come_in_pieces(child):
    with child.accept() as agent:
        sent = send(agent, STATUS + DESK[:3], pipe())
        send(agent, DESK[3:])
        child.do(2)
    assert child.inodes == sent


def test_a_request_may_come_without_its_descriptor(child):
    with child.accept() as agent:
        send(agent, DESK)
        child.do()
    assert child.inodes == [None]


@pytest.mark.parametrize("counts", [[1] * 5, [2], [5], [200]])
def test_descriptors_that_no_request_takes_end_the_connection(child, counts):
    with child.accept() as agent:
        for count in counts:
            send(agent, STATUS, *(pipe() for _ in range(count)))
        child.lose()


def test_an_agent_that_goes_leaves_no_descriptor(child):
    with child.accept() as agent:
        send(agent, STATUS, pipe())
        send(agent, DESK[:3], pipe())
    child.lose()


def test_descriptors_of_a_former_agent_are_closed(child):
    with child.accept() as former:
        send(former, DESK, pipe())
        late = child.calls.get(timeout=LIMIT_S)
        with child.accept() as newest:
            late()
            # The former agent's connection has ended.
            child.do()
            sent = send(newest, DESK, pipe())
            child.do()
    assert child.inodes == sent
