# SPDX-License-Identifier: Apache-2.0

"""Tasks and processes on virtual time."""

import contextvars

import greenlet
import pytest

from tests.world import kernel as kernels


@pytest.fixture
def kernel() -> kernels.Kernel:
    """Give a world in which nothing has happened."""
    return kernels.Kernel("a seed")


def test_time_passes_only_in_waits(kernel: kernels.Kernel) -> None:
    seen = []

    def body() -> None:
        kernel.sleep(3600.0)
        seen.append(kernel.now_s)

    kernel.spawn(kernel.process("p"), "t", body)
    assert kernel.run(lambda: bool(seen), 7200.0)
    assert 3600.0 <= seen[0] < 3601.0


def test_a_wait_ends_when_it_is_woken(kernel: kernels.Kernel) -> None:
    process = kernel.process("p")
    woken = []
    waiting = kernel.spawn(
        process, "waits", lambda: woken.append(kernel.park(100.0))
    )
    kernel.at(1.0, lambda: kernel.unpark(waiting))
    kernel.run(lambda: bool(woken), 200.0)
    assert woken == [True]
    assert kernel.now_s < 2.0


def test_a_wait_ends_when_its_time_is_over(kernel: kernels.Kernel) -> None:
    woken = []
    kernel.spawn(
        kernel.process("p"), "waits", lambda: woken.append(kernel.park(5.0))
    )
    kernel.run(lambda: bool(woken), 200.0)
    assert woken == [False]


def test_a_greenlet_is_used_again_and_keeps_nothing(
    kernel: kernels.Kernel,
) -> None:
    kept = contextvars.ContextVar("kept", default="nothing")
    seen = []

    def body() -> None:
        seen.append((greenlet.getcurrent(), kept.get()))
        kept.set("something")

    process = kernel.process("p")
    for at_s in (1.0, 2.0):
        kernel.at(at_s, lambda: kernel.spawn(process, "t", body))
    assert kernel.run(lambda: len(seen) == 2, 10.0)
    (first, _), (second, context) = seen
    assert second is first
    assert context == "nothing"


def test_a_frozen_process_goes_on_later(kernel: kernels.Kernel) -> None:
    process = kernel.process("p")
    steps = []

    def body() -> None:
        for _ in range(3):
            kernel.sleep(1.0)
            steps.append(kernel.now_s)

    kernel.spawn(process, "t", body)
    kernel.at(1.5, process.freeze)
    kernel.at(60.0, process.thaw)
    kernel.run(lambda: len(steps) == 3, 100.0)
    assert steps[0] < 2.0
    assert 60.0 <= steps[1] < steps[2]


def test_a_dead_process_does_nothing_more(kernel: kernels.Kernel) -> None:
    process = kernel.process("p")
    done = []

    def body() -> None:
        try:
            kernel.sleep(10.0)
        finally:
            done.append("cleaned up")

    kernel.spawn(process, "t", body)
    kernel.at(1.0, process.kill)
    kernel.at(100.0, lambda: done.append("end"))
    kernel.run(lambda: "end" in done, 200.0)
    assert done == ["end"]
    assert process.exit_status == -9


def test_a_fuse_kills_between_two_points(kernel: kernels.Kernel) -> None:
    process = kernel.process("p")
    passed = []

    def body() -> None:
        for number in range(10):
            kernel.point()
            passed.append(number)

    process.fuse = 4
    kernel.spawn(process, "t", body)
    kernel.at(50.0, lambda: passed.append(-1))
    kernel.run(lambda: -1 in passed, 100.0)
    assert passed == [0, 1, 2, -1]


def test_a_world_that_turns_in_a_circle_ends(
    kernel: kernels.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "MOST_STEPS", 100)

    def turn() -> None:
        while True:
            kernel.park(0.0)

    kernel.spawn(kernel.process("p"), "main", turn)
    assert not kernel.run(lambda: False, 9.0)
    assert kernel.failures == ["no end after 100 steps, in <p: main>"]
    assert kernel.now_s < 1.0


def test_what_a_task_raises_is_a_failure(kernel: kernels.Kernel) -> None:
    def body() -> None:
        raise ArithmeticError("seen")

    kernel.spawn(kernel.process("p"), "t", body)
    assert not kernel.run(lambda: False, 10.0)
    assert "ArithmeticError: seen" in kernel.failures[0]


def _order(seed: int) -> list[int]:
    kernel = kernels.Kernel(seed)
    process = kernel.process("p")
    order: list[int] = []
    for number in range(8):
        kernel.spawn(process, "t", lambda number=number: order.append(number))
    kernel.run(lambda: len(order) == 8, 10.0)
    return order


def test_the_seed_decides_who_goes_first() -> None:
    assert _order(1) == _order(1)
    assert len({tuple(_order(seed)) for seed in range(10)}) > 1
