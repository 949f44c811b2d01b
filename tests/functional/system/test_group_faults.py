# SPDX-License-Identifier: Apache-2.0

"""Groups that are resized under load, while their processes die.

No result is lost, doubled or wrong, and none is computed by a slot that is
being programmed, or that another group has: each result carries a stamp of the
slot that computed it, see :mod:`tests.harness.stamps`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import json
import pathlib
import random
import subprocess
import sys
import types
import zlib
from collections.abc import Iterator

import pytest

from fpgapool.common.channels import descriptors
from tests.functional.api import harness as api_harness
from tests.functional.groupdesk import harness as desk_harness
from tests.harness import cloud as clouds
from tests.harness import group_client
from tests.harness import planting
from tests.harness import processes
from tests.harness import stamps
from tests.harness import waiting

#: Both groups want more slots than there are, so that slots go to and fro.
HOSTS = (clouds.HostPlan("left", slots=3), clouds.HostPlan("right", slots=3))
LARGEST = 5
GROUPS = ("stamp-a", "stamp-b")
PROGRAMMING_TIME_S = 0.05
CORE = f"{stamps.__name__}:StampCore"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What happens.

    :ivar seed: of the order, and of what is hit.
    :ivar stopped_s: how long the conductor does nothing.
    :ivar pause_s: between two events at most.
    :ivar clients: programs of each group.
    :ivar threads: of each program; one of them uses locks.
    """

    seed: int
    resizes: int
    workers: int
    desks: int
    agents: int
    stopped_s: float
    pause_s: float
    clients: int
    threads: int

    def events(self) -> list[str]:
        """Return the events in their order."""
        found = [
            *["resize"] * self.resizes,
            *["worker"] * self.workers,
            *["desk"] * self.desks,
            *["agent"] * self.agents,
            "conductor",
        ]
        random.Random(self.seed).shuffle(found)
        return found


SHORT = Plan(
    seed=1,
    resizes=30,
    workers=2,
    desks=1,
    agents=1,
    stopped_s=3.0,
    pause_s=0.05,
    clients=1,
    threads=2,
)
LONG = Plan(
    seed=2,
    resizes=1000,
    workers=10,
    desks=5,
    agents=3,
    stopped_s=60.0,
    pause_s=0.2,
    clients=2,
    threads=3,
)


@pytest.fixture(scope="module")
def cloud(
    make_cloud, tmp_path_factory: pytest.TempPathFactory
) -> clouds.Cloud:
    variables = planting.variables(
        tmp_path_factory.mktemp("planted"),
        stamps.__name__,
        dict.fromkeys(GROUPS, CORE),
    )
    made: clouds.Cloud = make_cloud(*HOSTS, variables=variables)
    for host in made.hosts.values():
        host.write_boards(programming_time_s=PROGRAMMING_TIME_S)
    return made


class Program:
    """A process of a client; see :mod:`tests.harness.group_client`.

    :param settings: what it is told.
    :param socket_path: of the front door of its host.
    """

    def __init__(
        self, settings: group_client.Settings, socket_path: str
    ) -> None:
        self._stamps_path = pathlib.Path(settings.stamps_path)
        self.group = settings.group
        self._process = subprocess.Popen(
            [
                sys.executable,
                *("-m", group_client.__name__),
                json.dumps(dataclasses.asdict(settings)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=processes.ROOT,
            env={
                **desk_harness.environment(),
                "FPGAPOOL_SOCKET": socket_path,
            },
        )

    def wait_until_ready(self) -> None:
        """Wait until all its threads have had a result."""
        assert self._line() == "ready"

    def _line(self) -> str:
        stdout = self._process.stdout
        assert stdout is not None
        line = descriptors.read_line(stdout, group_client.PATIENCE_S)
        return line.decode().strip()

    def results(self) -> int:
        """Return how many results it has had."""
        return self._stamps_path.stat().st_size // stamps.LAYOUT.size

    def finish(self) -> group_client.Outcome:
        """Wait until all its tasks have ended; return what became of them."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return group_client.Outcome(**json.loads(self._line()))

    def stamps(self) -> list[stamps.Stamp]:
        """Return the stamps of all results."""
        found = stamps.LAYOUT.iter_unpack(self._stamps_path.read_bytes())
        return [stamps.Stamp(*one) for one in found]

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class Run:
    """Two groups with load, and what happens to them.

    :param programs: the load.
    """

    def __init__(
        self,
        plan: Plan,
        cloud: clouds.Cloud,
        api: api_harness.Server,
        programs: list[Program],
    ) -> None:
        self._plan = plan
        self._cloud = cloud
        self._api = api
        self._programs = programs
        self._rng = random.Random(plan.seed)
        self._sizes: dict[str, int] = {}

    def play(self) -> None:
        """Let all of it happen."""
        for event in self._plan.events():
            getattr(self, f"_{event}")()
            waiting.pause(self._rng.uniform(0.0, self._plan.pause_s))

    def _resize(self) -> None:
        name = self._rng.choice(GROUPS)
        sizes = [
            size
            for size in range(1, LARGEST + 1)
            if size != self._sizes.get(name)
        ]
        size = self._sizes[name] = self._rng.choice(sizes)

        def resized() -> bool:
            answer = self._api.ask(
                "PATCH",
                f"/v1/groups/{group_ids(self._api)[name]}",
                body={"group": {"size": size}},
            )
            # The conductor may have come back a moment ago.
            assert answer.status in (200, 503), answer
            return answer.status == 200

        waiting.wait_until(resized, f"{name} gets another size")

    def _worker(self) -> None:
        host = self._rng.choice([*self._cloud.hosts.values()])
        self._rng.choice(host.workers()).kill()
        self._go_on()

    def _desk(self) -> None:
        desks = [
            desk for one in self._cloud.hosts.values() for desk in one.desks()
        ]
        self._rng.choice(desks).kill()
        self._go_on()

    def _agent(self) -> None:
        host = self._rng.choice([*self._cloud.hosts.values()])
        host.agent.kill()
        self._go_on()
        host.agent.start()
        host.wait_served()

    def _conductor(self) -> None:
        """Tasks go on without a conductor."""
        before = self._results()
        self._cloud.conductor.pause()
        waiting.pause(self._plan.stopped_s)
        self._go_on()
        self._cloud.conductor.resume()
        least = 20 * self._plan.stopped_s
        assert all(
            after - count >= least
            for count, after in zip(before, self._results(), strict=True)
        )

    def _results(self) -> list[int]:
        return [program.results() for program in self._programs]

    def _go_on(self) -> None:
        """Wait until each program has more results.

        One task may not lose three members: it would then fail, as it may be
        the cause.
        """
        wanted = [count + 20 for count in self._results()]
        waiting.wait_until(
            lambda: all(
                map(int.__ge__, self._results(), wanted),
            ),
            lambda: f"all programs have results: {self._results()}, {wanted}",
            group_client.PATIENCE_S,
        )


def group_ids(api: api_harness.Server) -> dict[str, str]:
    """Return the ids of all groups, by their names."""
    groups = api.ask("GET", "/v1/groups").document["groups"]
    return {one["name"]: one["id"] for one in groups}


@contextlib.contextmanager
def load(
    plan: Plan,
    cloud: clouds.Cloud,
    api: api_harness.Server,
    directory: pathlib.Path,
) -> Iterator[list[Program]]:
    """Give programs that stream tasks through two groups."""
    for name in GROUPS:
        wanted = {
            "name": name,
            "accelerator": name,
            "size": 2,
            "min_size": 1,
            "max_size": LARGEST,
        }
        answer = api.ask("POST", "/v1/groups", body={"group": wanted})
        assert answer.status == 202, answer
    with contextlib.ExitStack() as stack:
        programs = []
        places = itertools.cycle(cloud.hosts.values())
        for number in range(plan.clients):
            for name in GROUPS:
                settings = group_client.Settings(
                    url=f"http://{api.address}",
                    token=api_harness.TOKEN,
                    group=name,
                    seed=plan.seed + number,
                    stamps_path=str(directory / f"{name}-{number}"),
                    threads=plan.threads,
                    locks=1,
                )
                program = Program(settings, next(places).socket_path())
                stack.callback(program.close)
                programs.append(program)
        for program in programs:
            program.wait_until_ready()
        yield programs


def check_stamps(
    cloud: clouds.Cloud, programs: list[Program]
) -> dict[tuple[int, int], int]:
    """Check where and when all results were computed.

    :returns: the number of times that each slot served a group.
    """
    hosts = {
        stamps.host_number(host.state_dir) for host in cloud.hosts.values()
    }
    by_slot = collections.defaultdict(list)
    for program in programs:
        accelerator = stamps.accelerator_number(program.group)
        for one in program.stamps():
            assert one.host in hosts
            assert one.accelerator == one.accelerator_after == accelerator
            assert one.programmed_ns == one.programmed_after_ns, one
            assert one.generation == one.generation_after > 0, one
            by_slot[one.host, one.slot].append((one, program.group))
    for found in by_slot.values():
        found.sort(key=lambda pair: pair[0].began_ns)
        holders: dict[int, str] = {}
        for (one, _), (after, _) in itertools.pairwise(found):
            assert one.ended_ns <= after.began_ns, (one, after)
            assert one.generation <= after.generation, (one, after)
        for one, group in found:
            assert holders.setdefault(one.generation, group) == group
    return {
        slot: len({one.generation for one, _ in found})
        for slot, found in by_slot.items()
    }


def _play(
    plan: Plan,
    cloud: clouds.Cloud,
    api: api_harness.Server,
    directory: pathlib.Path,
) -> int:
    """Let a plan happen; return how often slots changed hands."""
    with load(plan, cloud, api, directory) as programs:
        Run(plan, cloud, api, programs).play()
        outcomes = [program.finish() for program in programs]
        for one in outcomes:
            assert not one.problems, "\n".join(one.problems)
            assert one.sent == one.ended > 0
            assert one.locks > 0
        served = check_stamps(cloud, programs)
        assert sum(one.ended for one in outcomes) == sum(
            program.results() for program in programs
        )
    for group_id in group_ids(api).values():
        assert api.ask("DELETE", f"/v1/groups/{group_id}").status == 204
    waiting.wait_until(lambda: not group_ids(api), "no groups")
    cloud.check_consistent()
    waiting.wait_until(
        lambda: not any(host.desks() for host in cloud.hosts.values()),
        "no desks",
    )
    return sum(served.values())


def test_groups_serve_on_while_processes_die(cloud, api, tmp_path) -> None:
    assert _play(SHORT, cloud, api, tmp_path) > len(HOSTS)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_thousand_resizes_and_many_deaths(cloud, api, tmp_path) -> None:
    assert _play(LONG, cloud, api, tmp_path) > LONG.resizes // 5


GOOD = stamps.Stamp(
    host=stamps.host_number("/h"),
    slot=1,
    accelerator=stamps.accelerator_number("stamp-a"),
    accelerator_after=stamps.accelerator_number("stamp-a"),
    generation=5,
    generation_after=5,
    programmed_ns=7,
    programmed_after_ns=7,
    began_ns=100,
    ended_ns=200,
    count=1,
)


@pytest.mark.parametrize(
    "changes",
    [
        # In the middle of programming, or with another accelerator.
        {"accelerator_after": zlib.crc32(b"")},
        {"accelerator": stamps.accelerator_number("stamp-b")},
        {"programmed_after_ns": 8},
        # Of two holders at a time, one after the other, or none.
        {"generation_after": 6},
        {"began_ns": 150, "ended_ns": 300, "generation": 6},
        {"began_ns": 300, "ended_ns": 400, "generation": 4},
        {"generation": 0, "generation_after": 0, "began_ns": 1},
        {"host": stamps.host_number("/other")},
    ],
)
def test_a_wrong_stamp_is_found(changes) -> None:
    def check(*found: stamps.Stamp) -> None:
        host = types.SimpleNamespace(state_dir="/h")
        program = types.SimpleNamespace(
            group="stamp-a", stamps=lambda: [*found]
        )
        check_stamps(types.SimpleNamespace(hosts={"h": host}), [program])

    later = GOOD._replace(began_ns=300, ended_ns=400)
    check(GOOD, later)
    check(GOOD, later._replace(generation=6, generation_after=6))
    wrong = GOOD._replace(began_ns=300, ended_ns=400)._replace(**changes)
    if "generation" in changes and "generation_after" not in changes:
        wrong = wrong._replace(generation_after=wrong.generation)
    with pytest.raises(AssertionError):
        check(GOOD, wrong)
