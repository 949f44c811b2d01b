# SPDX-License-Identifier: Apache-2.0

"""Rings and doorbells on virtual time."""

import os
import select
from collections.abc import Callable

import pytest

from tests.world import kernel as kernels
from tests.world import rings
from tests.world import sockets
from tests.world import system


class Machine:
    """Processes that share rings."""

    def __init__(self) -> None:
        self.kernel = kernels.Kernel(5)
        system.enter(self.kernel)
        self.system = sockets.System(self.kernel, lambda _process, _args: None)

    def run(self, *bodies: Callable[[], None]) -> None:
        """Run each in a process of its own, to their ends."""
        tasks = [
            self.kernel.spawn(self.system.start(f"p{n}"), "main", body)
            for n, body in enumerate(bodies)
        ]
        ended = self.kernel.run(lambda: all(t.ended for t in tasks), 1000.0)
        assert not self.kernel.failures
        assert ended


@pytest.fixture
def machine() -> Machine:
    """Give a machine."""
    return Machine()


def _wait(channel: rings.Channel, room_bytes: int | None = None) -> None:
    poller = sockets._Poll()
    poller.register(channel.fileno(), select.POLLIN)
    if channel.arm(room_bytes):
        poller.poll()
    channel.disarm()


def test_records_come_in_their_order_and_wait_for_room(
    machine: Machine,
) -> None:
    made: list[rings.Channel] = []
    waits: list[bool] = []
    got: list[bytes] = []

    def write() -> None:
        channel = rings.Channel.create(256)
        made.append(channel)
        for number in range(20):
            record = bytes([number]) * 100
            while not channel.put(record[:30], record[30:]):
                waits.append(True)
                _wait(channel, 100)
        with pytest.raises(ValueError, match="does not fit"):
            channel.put(bytes(200))

    def read() -> None:
        while not made:
            machine.kernel.sleep(0.1)
        channel = rings.Channel.attach(
            [machine.system.duplicate(fd) for fd in made[0].fds]
        )
        made[0].forget_fds()
        while len(got) < 20:
            while (record := channel.get()) is None:
                _wait(channel)
            assert channel.get() is record
            got.append(bytes(record))
            machine.kernel.sleep(0.01)
            channel.free()
        channel.close()
        # What is left is in memory that nothing shares any more.
        assert made[0].put(b"unread")

    machine.run(write, read)
    assert got == [bytes([number]) * 100 for number in range(20)]
    assert waits


def test_a_doorbell_wakes_an_epoll(machine: Machine) -> None:
    modules = machine.system.modules()
    system_os, system_select = modules["os"], modules["select"]
    before = rings.rings.Channel, rings.rings.CHANNEL_FDS
    size_bytes = rings.records.RING_BYTES
    rings.install(modules)
    rings.rings.Channel, rings.rings.CHANNEL_FDS = before  # type: ignore
    rings.records.RING_BYTES = size_bytes
    bells: list[int] = []
    found: list[object] = []

    def wait() -> None:
        bells.append(system_os.eventfd(0, os.EFD_NONBLOCK))  # type: ignore
        with pytest.raises(BlockingIOError):
            system_os.eventfd_read(bells[0])  # type: ignore[attr-defined]
        epoll = system_select.epoll()  # type: ignore[attr-defined]
        epoll.register(bells[0], select.EPOLLIN)
        found.append(epoll.poll(1.0))
        found.append(epoll.poll(10.0))
        found.append(system_os.eventfd_read(bells[0]))  # type: ignore
        found.append(epoll.poll(0.0))

    def ring() -> None:
        machine.kernel.sleep(5.0)
        system_os.eventfd_write(bells[0], 2)  # type: ignore[attr-defined]

    machine.run(wait, ring)
    assert found == [[], [(bells[0], select.POLLIN)], 2, []]
