# SPDX-License-Identifier: Apache-2.0

"""Pools and jobs for the question what would be if."""

import typing

import numpy

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core import strategy as strategy_api
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from tests.unit.core import pools

PROJECTS = ("a", "b", "c")
INNER: dict[str, typing.Callable[..., strategy_api.Strategy]] = {
    "fifo": strategies.fifo,
    "sjf": strategies.sjf,
    "edf": strategies.edf,
    "random": strategies.random,
    "wa": strategies.wa,
    "ra": strategies.ra,
    "wra": strategies.wra,
    "affinity": strategies.affinity,
    "era": strategies.era,
    "auto": strategies.auto,
    "hjf": strategies.hjf,
}
NEXT = (None, events.SlotReady, events.HolderAttached, events.SlotReleased)


def make_pool(name: str, random: numpy.random.Generator) -> state.PoolState:
    """A pool of up to five hosts, perhaps with a group, or fair shares."""
    options: dict[str, object] = {}
    if name in ("ra", "wra"):
        options = {
            "remote_limit": random.choice([0, 1, 2]),
            "wait_s_per_byte": random.choice([0.0, 1e-8, 1e-7]),
        }
        options = {key: value.item() for key, value in options.items()}
    strategy = INNER[name](options, int(random.integers(9)))
    fair = random.choice([None, False, True])
    if fair is not None:
        sharing_options = sharing.ShareOptions(
            fair=bool(fair), quantum_bytes=2e8
        )
        strategy = shared.SharedStrategy(strategy, sharing_options, 50.0)
    pool = state.PoolState(strategy)
    pool.take_skips()
    happened: list[events.Event] = [
        events.AcceleratorsChanged((pools.AES, pools.FFT)),
        events.SessionLimitsChanged(None, (("a", 2),)),
    ]
    for host_id in range(int(random.integers(6))):
        shape = str(random.choice(["small", "large"]))
        slots = int(random.integers(4))
        programmed = random.choice([None, "aes", "fft"])
        happened.append(
            events.HostUp(
                pools.make_host(host_id, slots, shape, programmed=programmed)
            )
        )
    if random.random() < 0.3:
        group = model.Group(
            id=1, accelerator="aes", size=2, min_size=1, max_size=3
        )
        happened.append(events.GroupCreated(group))
    pool.step(happened, 0.0)
    return pool


def make_job(
    job_id: int, now: float, random: numpy.random.Generator
) -> model.Job:
    """Any job of the present."""
    choose = random.choice
    return pools.make_job(
        job_id,
        choose([None, *range(6)]),
        accelerator=str(choose(["aes", "aes", "aes", "fft", "none"])),
        claimed_bytes=float(choose([1e6, 1e8, 3e8, 5e9])),
        arrival_s=now,
        project=str(choose(PROJECTS)),
        deadline_s=choose([None, now + 3.0, now + 90.0]),
        wait_timeout_s=choose([None, None, None, 0.0, 5.0]),
    )


def go_on(
    pool: state.PoolState, now: float, random: numpy.random.Generator
) -> list[events.Event]:
    """What agents and operators may report next."""
    happened: list[events.Event] = []
    for slot_id, one in pool.assignments().items():
        kind = random.choice(NEXT)
        if kind is not None:
            happened.append(kind(slot_id, one.generation))
    if random.random() < 0.2:
        happened.append(events.HostLost(int(random.integers(6))))
    if random.random() < 0.2:
        happened.append(events.DeviceDisabled(int(random.integers(6))))
    if random.random() < 0.2:
        happened.append(
            events.ReservableSlotsChanged(int(random.integers(6)), 1)
        )
    return happened
