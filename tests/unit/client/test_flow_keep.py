# SPDX-License-Identifier: Apache-2.0

"""What waits to be sent outlives the buffers of a slot that was lost."""

from __future__ import annotations

import os
import socket
import threading
from concurrent import futures

import pytest

from fpgapool.agent.worker.data import memory
from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import flow as flows
from fpgapool.client.sessions import pieces
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes

TIMEOUT_S = 30.0
CHUNK_BYTES = 4096
BUFFERS = 2
OPENED = {
    "resume_secret": "secret",
    "chunk_bytes": CHUNK_BYTES,
    "window_bytes": BUFFERS * CHUNK_BYTES,
    "input_offset": 0,
    "output_offset": 0,
}


class Dialer:
    """Connects to nothing."""

    features: frozenset[str] = frozenset()


class Slot:
    """A slot, as one sees it from its worker."""

    def __init__(self) -> None:
        self.memory = memory.SharedMemory(CHUNK_BYTES, BUFFERS)
        shared = connections.SharedBuffers(
            *map(os.dup, self.memory.fds),
            {"buffer_bytes": CHUNK_BYTES, "buffers": BUFFERS},
        )
        client_end, self.sock = socket.socketpair()
        opened = connections.Opened.from_document(OPENED)
        self.connection = connections.Connection(
            channel.PlainChannel(client_end), opened, shared
        )

    def close(self) -> None:
        self.memory.close()
        self.sock.close()
        self.connection.channel.close()


class Sending:
    """The lock of a flow that is looking for another slot."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.release = self._lock.release
        self.waited_for = threading.Event()

    def acquire(self, blocking: bool = True) -> bool:
        if blocking:
            self.waited_for.set()
        return self._lock.acquire(blocking)


@pytest.fixture
def slots():
    made = Slot(), Slot()
    yield made
    for slot in made:
        slot.close()


@pytest.fixture
def flow(slots):
    seeker = waiting.SlotSeeker(object(), {}, cancel.CancelToken(), None)
    return flows.Flow(Dialer(), slots[0].connection, seeker)


def _piece(slot: Slot) -> pieces.Piece:
    shared = slot.connection.shared
    assert shared is not None
    piece = pieces.Piece(0, shared.input(0)[:3], shared)
    piece.data[:] = b"abc"
    return piece


def test_a_piece_that_waits_for_another_slot_is_whole(slots, flow) -> None:
    first, second = slots
    piece = _piece(first)
    sent: futures.Future[None] = futures.Future()

    def send() -> None:
        flow.send(piece, end=False, deadline_s=None)
        sent.set_result(None)

    flow._sending = Sending()
    threading.Thread(target=send, daemon=True).start()
    assert flow._sending.waited_for.wait(TIMEOUT_S)
    first.memory.close()
    flow._connection = second.connection
    flow._sending.release()
    sent.result(TIMEOUT_S)
    header = frames.FrameHeader.unpack_from(
        second.sock.recv(frames.HEADER_BYTES)
    )
    assert header.flags & frames.SHM
    assert bytes(second.memory.take_input(header.aux, 3)) == b"abc"


def test_a_piece_that_was_emptied_is_not_sent(slots, flow) -> None:
    first, second = slots
    piece = _piece(first)
    first.memory.close()
    flow._connection = second.connection
    with pytest.raises(errors.SessionFailed) as caught:
        flow.send(piece, end=False, deadline_s=None)
    assert caught.value.code == codes.SESSION_LOST
    second.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        second.sock.recv(1)


@pytest.mark.security
@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("missing_bytes", [0, 1])
def test_buffers_that_could_shrink_are_not_mapped(is_sealed, missing_bytes):
    """A worker that shortened them would kill this program."""
    fds = []
    for name in ("in", "out"):
        size_bytes = BUFFERS * CHUNK_BYTES + 1 - missing_bytes
        if is_sealed:
            fds.append(buffers.make(name, size_bytes))
        else:
            fds.append(os.memfd_create(name, os.MFD_ALLOW_SEALING))
            os.ftruncate(fds[-1], size_bytes)
    shm = {"buffers": BUFFERS, "buffer_bytes": CHUNK_BYTES}
    if is_sealed and not missing_bytes:
        connections.SharedBuffers(*fds, shm)
        return
    with pytest.raises(frames.ProtocolError):
        connections.SharedBuffers(*fds, shm)
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
