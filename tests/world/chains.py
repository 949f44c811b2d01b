# SPDX-License-Identifier: Apache-2.0

"""Chains in a world: who uses them, and what must hold of their bytes.

Clients, workers, agents and links are the product's own, so that bytes go from
worker to worker here as they do elsewhere. Each run of a chain gives all of
its output, each byte once and in order, or it ends with a code that says what
went wrong.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import traceback
import typing
from collections.abc import Callable

from fpgapool import client
from fpgapool.agent.worker.data import links
from fpgapool.client.chains import stage
from fpgapool.client.sessions import software
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.chaos import judge
from tests.world import driver
from tests.world import faults
from tests.world import kernel as kernels
from tests.world import part
from tests.world import planting
from tests.world import schedule as schedules

if typing.TYPE_CHECKING:
    from tests.world import pool as pools
    from tests.world import run

#: How many chains a schedule has.
_CHAINS = (3, 8)
#: A chain takes at most so long, all waits included.
_PATIENCE_S = 60.0
#: Short pieces, so that a fault finds many on their way.
_PIECE_BYTES = 1024
#: Of a client that computes while it waits.
_CPU_BYTES_PER_S = 20_000
#: No fault is a reason for these.
_WRONG = judge._CORRUPTED | {codes.CHAIN_STALLED, codes.INTERNAL_ERROR}


@dataclasses.dataclass(frozen=True)
class Chain:
    """A run of a chain.

    :ivar host: where its client runs, by number.
    :ivar accelerators: of its stages.
    :ivar meanwhile: its client computes while it waits for slots.
    """

    host: int
    project: int
    accelerators: tuple[str, ...]
    size_bytes: int
    data_seed: int
    begins_s: float
    meanwhile: bool = False

    def __post_init__(self) -> None:
        # JSON has lists.
        object.__setattr__(self, "accelerators", tuple(self.accelerators))

    def data(self) -> bytes:
        return random.Random(self.data_seed).randbytes(self.size_bytes)

    def expected(self, data: bytes) -> bytes:
        """Return the output of all stages."""
        for name in self.accelerators:
            if name in driver.RATIOS:
                data = driver.scaled(name, data)
        return data


def _chains(rng: random.Random, more: random.Random) -> typing.Iterator[Chain]:
    for _ in range(rng.randint(*_CHAINS)):
        names = ["copy"] * rng.choice((2, 2, 3))
        # The former has little output, and some pieces have none.
        scaling = rng.choice(("shrink", "swell", "copy", "copy"))
        names[-1 if scaling == "shrink" else 0] = scaling
        yield Chain(
            host=rng.randrange(len(schedules.SLOTS)),
            project=rng.randrange(len(schedules.PROJECTS)),
            accelerators=tuple(names),
            size_bytes=int(2 ** rng.uniform(9, 15.5)),
            data_seed=rng.getrandbits(32),
            begins_s=round(rng.uniform(0.0, 25.0), 3),
            # Hosts have no cores for the others.
            meanwhile=set(names) == {"copy"} and more.random() < 0.5,
        )


#: Workers that have served a stage.
_STAGES: list[kernels.Process] = []


def _stage_kill(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    """A worker dies that serves a stage of a chain."""

    def at_work() -> list[kernels.Process]:
        return [
            process
            for process in _STAGES
            if process.alive
            and pool.workers[process]._machine.state == states.SLOT_ACTIVE
        ]

    return faults.die_at_work(pool, fault, at_work)


class Chains(part.Part):
    """Clients use chains."""

    NAME = "chains"
    HELP = "in which schedules clients use chains"
    SEEDS = (7, (3,))
    PLANS = {"chains": Chain}
    FAULTS = {"stage-kill": _stage_kill}

    @classmethod
    def draw(cls, schedule: schedules.Schedule) -> schedules.Schedule:
        rng = random.Random(f"chains {schedule.seed}")
        more = random.Random(f"meanwhile {schedule.seed}")
        kinds = list(cls.FAULTS)
        return dataclasses.replace(
            schedule.having("chains", tuple(_chains(rng, more))),
            faults=(
                *schedule.faults,
                *schedules.draw_faults(rng, kinds, (1, 2, 4)),
            ),
        )

    @classmethod
    def prepare(cls, kernel: kernels.Kernel) -> None:
        stage.StageFlow.most_piece_bytes = _PIECE_BYTES
        compute = software.Processor.compute

        def slow(
            processor: software.Processor, piece: memoryview, *args: typing.Any
        ) -> memoryview:
            kernel.sleep(len(piece) / _CPU_BYTES_PER_S)
            return compute(processor, piece, *args)

        software.Processor.compute = slow  # type: ignore[method-assign]

    def __init__(self, world: run.World) -> None:
        self._world = world
        self._ends = collections.Counter[str]()
        self._moved = self._cpu_bytes = 0
        world.watcher.wrap(links.Links, "follow", self._followed)

    def _followed(self, *_args: object) -> None:
        _STAGES.append(self._world.kernel.task().process)

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
                meanwhile="cpu" if planned.meanwhile else None,
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
        self._cpu_bytes += sum(one.cpu_bytes for one in report.stages)
        if output != planned.expected(data):
            fail(f"the output of a chain differs: {name} {report}")
        if report.input_bytes != len(data):
            fail(f"a chain has lost input: {name} {report}")

    def facts(self) -> dict[str, object]:
        return {
            "chain_ends": dict(self._ends),
            "chain_moves": self._moved,
            "chain_cpu_bytes": self._cpu_bytes,
        }


_bug = planting.of_part(Chains.NAME)


@_bug("a chain ")
def a_stage_forgets_what_the_next_one_may_need() -> None:
    taken = stage._Processed
    stage._Processed = (  # type: ignore[misc, assignment]
        lambda input_bytes, task_id, _output_bytes: taken(
            input_bytes, task_id, 0
        )
    )


@_bug("a chain differs")
def a_link_begins_with_what_has_arrived() -> None:
    position = links._position

    def early(*args: typing.Any) -> int:
        return max(0, position(*args) - _PIECE_BYTES)

    links._position = early
