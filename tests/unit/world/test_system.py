# SPDX-License-Identifier: Apache-2.0

"""What programs of a world ask their system for."""

import array
import queue
import socket
import time
from collections.abc import Callable

import pytest

from tests.world import kernel as kernels
from tests.world import sockets
from tests.world import system


class Machine:
    """A world with nothing but a system."""

    def __init__(self) -> None:
        self.kernel = kernels.Kernel(3)
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


def test_a_queue_keeps_the_order_and_the_time(machine: Machine) -> None:
    items = system.Queue(2)
    got: list[object] = []

    def produce() -> None:
        for number in range(5):
            items.put(number)
        machine.kernel.sleep(50.0)
        items.put("late")

    def consume() -> None:
        for _ in range(5):
            got.append(items.get())
        with pytest.raises(queue.Empty):
            items.get(timeout=1.0)
        got.append(items.get())

    machine.run(produce, consume)
    assert got == [0, 1, 2, 3, 4, "late"]


def test_a_lock_is_held_by_one(machine: Machine) -> None:
    lock = system.Lock()
    inside: list[int] = []
    most: list[int] = []

    def body() -> None:
        for _ in range(3):
            with lock:
                inside.append(1)
                machine.kernel.sleep(0.1)
                most.append(len(inside))
                inside.pop()

    machine.run(body, body, body)
    assert most == [1] * 9


def test_a_condition_wakes_who_waits(machine: Machine) -> None:
    changed = system.Condition()
    state: list[int] = []
    seen: list[bool] = []

    def wait() -> None:
        with changed:
            seen.append(changed.wait_for(lambda: len(state) == 2, 5.0))
            seen.append(changed.wait_for(lambda: len(state) == 3, 5.0))

    def tell() -> None:
        for number in range(2):
            machine.kernel.sleep(1.0)
            with changed:
                state.append(number)
                changed.notify_all()

    machine.run(wait, tell)
    assert seen == [True, False]


def test_a_future_brings_a_result_an_error_or_nothing(
    machine: Machine,
) -> None:
    good, bad, never = system.Future(), system.Future(), system.Future()

    def ask() -> None:
        assert good.result(5.0) == "answer"
        with pytest.raises(KeyError):
            bad.result(5.0)
        with pytest.raises(TimeoutError):
            never.result(5.0)
        assert never.cancel()

    def answer() -> None:
        machine.kernel.sleep(1.0)
        good.set_result("answer")
        bad.set_exception(KeyError("k"))

    machine.run(ask, answer)
    assert not never.set_running_or_notify_cancel()


def test_local_values_are_of_one_task(machine: Machine) -> None:
    class Values(system.Local):
        number = 0

    values = Values()
    seen: list[object] = []

    def body() -> None:
        seen.append(values.number)
        values.number = 5
        machine.kernel.sleep(1.0)
        seen.append(values.number)

    machine.run(body, body)
    assert seen == [0, 0, 5, 5]


def _serve(machine: Machine, got: list[bytes]) -> None:
    listener = sockets.Socket(socket.AF_UNIX)
    listener.bind("/world/test.sock")
    listener.listen()
    sock, _ = listener.accept()
    while data := sock.recv(3):
        got.append(data)
    sock.close()
    listener.close()


def test_bytes_arrive_in_order_and_then_the_end(machine: Machine) -> None:
    got: list[bytes] = []

    def connect() -> None:
        machine.kernel.sleep(1.0)
        sock = sockets.Socket(socket.AF_UNIX)
        sock.connect("/world/test.sock")
        sock.sendall(b"abcdefgh")
        sock.close()

    machine.run(lambda: _serve(machine, got), connect)
    assert b"".join(got) == b"abcdefgh"


def test_descriptors_are_passed_on(machine: Machine) -> None:
    one, other = [], []

    def body() -> None:
        left, right = sockets._socketpair()
        inner, kept = sockets._socketpair()
        fd = inner.fileno()
        left.sendmsg(
            [b"x"],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))],
        )
        inner.close()
        buffer = memoryview(bytearray(8))
        _, ancillary, _, _ = right.recvmsg_into([buffer])
        numbers = array.array("i")
        numbers.frombytes(ancillary[0][2])
        received = sockets.Socket(fileno=numbers[0])
        received.sendall(b"by another name")
        one.append(kept.recv(100))
        received.close()
        other.append(kept.recv(100))

    machine.run(body)
    assert one == [b"by another name"]
    assert other == [b""]


def test_the_death_of_a_process_ends_its_connections(
    machine: Machine,
) -> None:
    ends: list[bytes] = []

    def serve() -> None:
        listener = sockets.Socket(socket.AF_UNIX)
        listener.bind("/world/test.sock")
        listener.listen()
        sock, _ = listener.accept()
        ends.append(sock.recv(10))

    client = machine.system.start("client")

    def connect() -> None:
        machine.kernel.sleep(1.0)
        sock = sockets.Socket(socket.AF_UNIX)
        sock.connect("/world/test.sock")
        machine.kernel.sleep(1000.0)

    machine.kernel.spawn(client, "main", connect)
    machine.kernel.at(5.0, client.kill)
    machine.run(serve)
    assert ends == [b""]


def test_a_broken_connection_is_an_error(machine: Machine) -> None:
    def serve() -> None:
        listener = sockets.Socket(socket.AF_INET)
        listener.bind(("10.0.0.1", 80))
        listener.listen()
        sock, _ = listener.accept()
        with pytest.raises(ConnectionResetError):
            sock.recv(10)

    def connect() -> None:
        machine.kernel.sleep(1.0)
        sock = sockets._create_connection(("10.0.0.1", 80), 5.0)
        machine.system.break_connections(lambda _one, _other: True)
        with pytest.raises(ConnectionResetError):
            sock.sendall(b"x")

    machine.run(serve, connect)


def test_nobody_listens(machine: Machine) -> None:
    def connect() -> None:
        with pytest.raises(FileNotFoundError):
            sockets.Socket(socket.AF_UNIX).connect("/world/none.sock")
        with pytest.raises(ConnectionRefusedError):
            sockets._create_connection(("10.0.0.9", 80), 5.0)

    machine.run(connect)


def test_a_default_argument_is_no_real_clock(machine: Machine) -> None:
    def ages(
        since_s: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        wall: Callable[[], float] = time.time,
    ) -> tuple[float, float]:
        return clock() - since_s, wall()

    system._replace_defaults(ages)

    age_s, wall_s = ages(1000.0)

    assert age_s == machine.kernel.now_s
    assert wall_s == kernels.BEGINS_AT + machine.kernel.now_s
