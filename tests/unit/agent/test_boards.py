# SPDX-License-Identifier: Apache-2.0

"""What a driver says of its boards, and the energy that follows from it."""

from __future__ import annotations

import heapq
import itertools
import random
import typing
from collections.abc import Callable

import pytest

from fpgapool.agent import loop as agent_loop
from fpgapool.agent.host import boards
from fpgapool.drivers import base
from fpgapool.drivers import noop

SLOTS = 2
DEVICE = base.DeviceInfo(
    "board0",
    "model",
    1e9,
    1.0,
    tuple(base.SlotInfo(number, "shape", None) for number in range(SLOTS)),
)


class Driver(noop.NoopDriver):
    """Says of its board what a test wants.

    :param found: its health, or what checking it raises.
    """

    def __init__(self, found: base.Health | Exception) -> None:
        self._found = found

    def health(self, device: str) -> base.Health:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (base.Health(True), None),
        (base.Health(True, "a remark"), None),
        (base.Health(False), "the driver reports a fault"),
        (
            base.Health(False, "it burns:\n\n  brightly\n"),
            "it burns: brightly",
        ),
        (
            base.DriverError("DEVICE_FAILED", "one\ntwo"),
            "DriverError: DEVICE_FAILED: one two",
        ),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
    ],
)
def test_a_board_is_tried(found, fault) -> None:
    tried = boards.Boards(Driver(found), [DEVICE], None, None, None).try_all()
    assert tried == {"board0": fault}


# -- energy ----------------------------------------------------------------


class World(noop.NoopDriver):
    """A loop, a caller and a driver on virtual time.

    :param sensor_s: how long it takes to read the power.
    :ivar power_w: the board's power.
    :ivar held: its slots with a holder, and the holders' generations.
    :ivar drawn_j: the integral of each holder's share, by generation.
    """

    def __init__(self, sensor_s: float = 0.0005) -> None:
        self._now_s = 0.0
        self._sensor_s = sensor_s
        self._order = itertools.count()
        self._timers: list[tuple[float, int, agent_loop.Timer]] = []
        self.power_w = 20.0
        self.held: dict[tuple[str, int], int] = {}
        self.drawn_j: dict[int, float] = {}
        self.readings = self.checks = 0
        self.boards = boards.Boards(
            self,
            [DEVICE],
            typing.cast(typing.Any, self),
            typing.cast(typing.Any, self),
            lambda *_: None,
        )
        self._tick()

    def _tick(self) -> None:
        self.boards.check()
        self.call_later(boards.CHECK_S, self._tick)

    def now(self) -> float:
        return self._now_s

    def call_later(
        self, delay_s: float, callback: Callable[[], None]
    ) -> agent_loop.Timer:
        timer = agent_loop.Timer(self._now_s + max(delay_s, 0.0), callback)
        heapq.heappush(self._timers, (timer.due_s, next(self._order), timer))
        return timer

    def submit(
        self,
        call: Callable[[], typing.Any],
        on_result: Callable[[typing.Any], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        begin_s = self._now_s
        found = call()
        took_s, self._now_s = self._now_s - begin_s, begin_s
        self.call_later(took_s, lambda: on_result(found))

    def health(self, device: str) -> base.Health:
        self.checks += 1
        return base.Health(True)

    def telemetry(self, device: str) -> base.Telemetry:
        self.readings += 1
        self._now_s += self._sensor_s
        return base.Telemetry(self.power_w, None)

    def run_until(self, time_s: float) -> None:
        while self._timers and self._timers[0][0] <= time_s:
            due_s, _, timer = heapq.heappop(self._timers)
            self._pass(due_s)
            if timer.callback is not None:
                timer.callback()
        self._pass(time_s)

    def _pass(self, time_s: float) -> None:
        for generation in self.held.values():
            share_w = self.power_w / len(self.held)
            self.drawn_j[generation] += share_w * (time_s - self._now_s)
        self._now_s = time_s

    def hold(self, slot: int, generation: int) -> None:
        self.held["board0", slot] = generation
        self.drawn_j[generation] = 0.0
        self.boards.set_holders(dict(self.held))

    def release(self, slot: int) -> float:
        """Free a slot; return the energy that its holder is charged."""
        key = "board0", slot
        del self.held[key]
        self.boards.set_holders(dict(self.held))
        charged_j = self.boards.meter.energy_j(key, self._now_s)
        assert charged_j is not None
        return charged_j


def serve(
    world: World, slot: int, generation: int, length_s: float, active_w: float
) -> float:
    """Let a session compute for most of a time; return its energy."""
    world.hold(slot, generation)
    begin_s = world.now()
    world.run_until(begin_s + 0.05 * length_s)
    world.power_w += active_w
    world.run_until(begin_s + 0.95 * length_s)
    world.power_w -= active_w
    world.run_until(begin_s + length_s)
    return world.release(slot)


@pytest.mark.parametrize("length_s", [0.2, 1.0, 5.0, 60.0])
@pytest.mark.parametrize("sensor_s", [0.0001, 0.002, 0.01])
@pytest.mark.parametrize("active_w", [5.0, 40.0])
def test_sessions_pay_what_the_board_draws_while_they_hold_it(
    length_s: float, sensor_s: float, active_w: float
) -> None:
    """However short they are, at any times between the regular readings."""
    world, chance = World(sensor_s), random.Random(1)
    charged_j = 0.0
    for generation in range(50):
        world.run_until(world.now() + chance.uniform(0.01, 2.0))
        charged_j += serve(world, 0, generation, length_s, active_w)
    drawn_j = sum(world.drawn_j.values())
    assert charged_j == pytest.approx(drawn_j, rel=0.05)


def test_sessions_that_share_a_board_share_what_it_draws() -> None:
    """A long one, and short ones beside it."""
    world, chance = World(), random.Random(2)
    world.run_until(0.3)
    world.hold(1, 1000)
    charged_j = 0.0
    for generation in range(100):
        world.run_until(world.now() + chance.uniform(0.01, 1.0))
        charged_j += serve(world, 0, generation, 0.2, 30.0)
    long_j = world.release(1)
    assert long_j == pytest.approx(world.drawn_j.pop(1000), rel=0.05)
    assert charged_j == pytest.approx(sum(world.drawn_j.values()), rel=0.05)


@pytest.mark.parametrize("sensor_s", [0.0001, 0.01, 0.1])
def test_readings_take_little_of_the_time(sensor_s: float) -> None:
    """Also where sessions come and go all the time."""
    world = World(sensor_s)
    world.run_until(0.5)
    for generation in range(1000):
        serve(world, 0, generation, 0.03, 5.0)
    regular = world.now() / boards.CHECK_S
    # A tenth of it, and at most a second in a row.
    assert (world.readings - regular) * sensor_s <= 0.1 * world.now() + 1.0
    assert world.readings <= 100 * world.now() + regular
    # Checks of the boards wait for no more than a reading.
    assert world.checks >= world.now() / boards.CHECK_S - 1


def test_a_long_session_needs_few_readings() -> None:
    world = World()
    world.run_until(0.5)
    world.hold(0, 1)
    world.run_until(1000.5)
    assert world.readings <= 1000 + 60


def test_an_idle_board_needs_the_regular_readings_only() -> None:
    world = World()
    world.run_until(100.5)
    assert world.readings == 101
