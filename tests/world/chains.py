# SPDX-License-Identifier: Apache-2.0

"""Chains in a world: who uses them, and what must hold of their bytes.

Clients, workers, agents and links are the product's own, so that bytes go from
worker to worker here as they do elsewhere. Each run of a chain gives all of
its output, each byte once and in order, or it ends with a code that says what
went wrong; no link gives a session a byte that its client has not announced.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import traceback
import typing

from fpgapool import client
from fpgapool.agent.worker.data import feeding as worker_feeding
from fpgapool.agent.worker.data import links
from fpgapool.client.chains import transfer
from fpgapool.vocabulary import codes
from tests.chaos import judge
from tests.world import driver
from tests.world import part
from tests.world import planting
from tests.world import schedule as schedules

if typing.TYPE_CHECKING:
    from tests.world import run
    from tests.world import pool as pools

#: How many chains a schedule has.
_CHAINS = (3, 8)
#: A chain takes at most so long, all waits included.
_PATIENCE_S = 60.0
_ACCELERATORS = ("copy", "shrink", "swell")
#: Short pieces, so that a fault finds many on their way.
_PIECE_BYTES = 1024
#: A chain that has moved no byte ends like that, whatever the reason, …
_WRONG = judge._CORRUPTED | {codes.CHAIN_STALLED, codes.INTERNAL_ERROR}


@dataclasses.dataclass(frozen=True)
class Chain:
    """A run of a chain.

    :ivar host: where its client runs, by number.
    :ivar accelerators: of its stages.
    """

    host: int
    project: int
    accelerators: tuple[str, ...]
    meanwhile: bool
    size_bytes: int
    data_seed: int
    begins_s: float

    def data(self) -> bytes:
        return random.Random(self.data_seed).randbytes(self.size_bytes)

    def expected(self, data: bytes) -> bytes:
        """Return the output of all stages."""
        for name in self.accelerators:
            if name in driver.RATIOS:
                data = driver.scaled(name, data)
        return data


def _chains(rng: random.Random) -> typing.Iterator[Chain]:
    for _ in range(rng.randint(*_CHAINS)):
        names = rng.choices(_ACCELERATORS, (6, 1, 1), k=rng.choice((2, 2, 3)))
        if names.count("swell") > 1:
            names = ["swell", "copy"]
        yield Chain(
            host=rng.randrange(len(schedules.SLOTS)),
            project=rng.randrange(len(schedules.PROJECTS)),
            accelerators=tuple(names),
            meanwhile=False,
            size_bytes=int(2 ** rng.uniform(9, 14)),
            data_seed=rng.getrandbits(32),
            begins_s=round(rng.uniform(0.0, 25.0), 3),
        )


class Chains(part.Part):
    """Clients use chains."""

    NAME = "chains"
    HELP = "in which schedules clients use chains"
    SEEDS = (7, (3,))
    PLANS = {"chains": Chain}

    @classmethod
    def draw(cls, schedule: schedules.Schedule) -> schedules.Schedule:
        rng = random.Random(f"chains {schedule.seed}")
        return schedule.having("chains", tuple(_chains(rng)))

    @classmethod
    def prepare(cls, _kernel: object) -> None:
        from fpgapool.client.chains import stage

        stage.StageFlow.most_piece_bytes = _PIECE_BYTES

    def __init__(self, world: run.World) -> None:
        self._world = world
        self._ends = collections.Counter[str]()
        self._moved = 0

    def begin(self) -> None:
        for number, planned in enumerate(self._world.schedule.of("chains")):
            agent = self._world.pool.agents[planned.host]
            process = self._world.pool.system.start(
                f"chain {number}", agent.host
            )
            self._world.pool.clients.append(process)

            def body(
                number: int = number,
                planned: Chain = planned,
                agent: pools.Agent = agent,
            ) -> None:
                self._world.kernel.sleep(planned.begins_s)
                self._use(number, planned, agent)

            self._world.play(process, body)

    def _use(self, number: int, planned: Chain, agent: pools.Agent) -> None:
        data, name = planned.data(), f"chain {number} {planned}"
        fail = self._world.kernel.fail
        try:
            output, report = client.chain(
                *planned.accelerators,
                front_door=agent.front_door(
                    schedules.PROJECTS[planned.project]
                ),
                timeout_s=_PATIENCE_S,
            ).run_buffer(data, timeout_s=_PATIENCE_S)
        except client.FpgapoolError as error:
            self._ends[error.code] += 1
            if error.code in _WRONG:
                fail(f"a chain fails by itself: {error.code} {error} {name}")
            return
        except Exception:
            fail(f"a chain raised\n{name}\n{traceback.format_exc()}")
            return
        self._ends[""] += 1
        self._moved += sum(one.reopens for one in report.stages)
        if output != planned.expected(data):
            fail(f"the output of a chain differs: {name} {report}")
        if report.input_bytes != len(data):
            fail(f"a chain has lost input: {name} {report}")

    def facts(self) -> dict[str, object]:
        return {"chain_ends": dict(self._ends), "chain_moves": self._moved}
