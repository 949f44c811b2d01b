# SPDX-License-Identifier: Apache-2.0

"""Act three: two groups share slots, first with fixed sizes, then elastic."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import tempfile

import numpy as np
import rich.console

from demo import display
from demo import groups
from demo import pool
from demo import programs
from demo import verification
from demo import warming
from demo import workload
from fpgapool.sim import plots
from fpgapool.sim import screen
from fpgapool.sim.inputs import arrivals
from fpgapool.sim.inputs import scenario as scenarios

PICTURE_NAME = "groups.png"
#: The group that is busy first, and the other one.
NAMES = ("encrypt", "digest")
CLIENTS = 2
#: Bytes of a task of each group. One takes a tenth of a second, so that the
#: processors have time for all.
TASK_BYTES = {"encrypt": 512 * 1024, "digest": 256 * 1024}
RATE_SCALE = 0.005
TASK_S = 0.1
#: How often the pool looks at the sizes. Programming takes 0.05 s.
PERIOD_S = 0.5
#: The same with devices, which compile an accelerator for a second.
DEVICE_PERIOD_S = 2.0
#: Lengths in seconds, with the slots that the arriving tasks of each group
#: would keep busy then. All together they are fewer than there are.
LOAD = ((2.0, (1.5, 1.5)), (8.0, (6.0, 0.6)), (8.0, (0.6, 6.0)))

_SLOTS = pool.GROUP_BOARDS * pool.GROUP_SLOTS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The user's choices.

    :ivar out: directory for the picture; it exists.
    :ivar seed: of keys, contents and arrivals.
    :ivar driver: of the pool's boards.
    """

    out: pathlib.Path
    seed: int
    driver: str


@dataclasses.dataclass(frozen=True)
class Values:
    """What a run has shown.

    :ivar tasks: that have ended.
    :ivar mean_s: from the arrival of a task to its end.
    :ivar p95_s: its 95th percentile.
    :ivar moves: how often a member joined a group.
    """

    tasks: int
    mean_s: float
    p95_s: float
    moves: int


def measure(outcome: programs.Outcome) -> Values:
    """Return what a run has shown."""
    return Values(
        tasks=len(outcome.latencies_s),
        mean_s=float(np.mean(outcome.latencies_s)),
        p95_s=float(np.percentile(outcome.latencies_s, 95)),
        moves=sum(
            max(after - before, 0)
            for sizes in outcome.course.members
            for before, after in itertools.pairwise(sizes)
        ),
    )


def verdict(fixed: Values, elastic: Values) -> str:
    """Say whether elastic groups did better with the same tasks."""
    factor = fixed.mean_s / elastic.mean_s
    shows = elastic.moves and factor > 1
    start = (
        "Elastic groups help"
        if shows
        else "Elastic groups do NOT help in this run"
    )
    return (
        f"{start}: {_times(fixed, elastic)}, so they were done {factor:.1f}"
        f" times as fast (above 1 expected). {elastic.moves} times a slot was"
        " programmed for the other group, at the end of its task."
    )


def summary(fixed: Values, elastic: Values) -> str:
    """Say how long tasks took on devices whose rates are not modelled."""
    return (
        f"{_times(fixed, elastic)}. {elastic.moves} times a slot was"
        " programmed for a group that grew. The times are not compared: all"
        " slots share the devices of this machine, so more of them compute no"
        " faster."
    )


def _times(fixed: Values, elastic: Values) -> str:
    return (
        f"with fixed sizes {fixed.tasks} tasks took {fixed.mean_s:.2f} s on"
        f" average and {fixed.p95_s:.2f} s at the 95th percentile; with"
        f" 'ahead' the same tasks took {elastic.mean_s:.2f} s and"
        f" {elastic.p95_s:.2f} s"
    )


def perform(settings: Settings, console: rich.console.Console) -> None:
    """Run the load on fixed and on elastic groups, check and compare.

    :param settings: the user's choices.
    :param console: for all output.
    :raises DemoError: if something goes wrong.
    :raises OSError: if a file cannot be read or written.
    """
    _Sharing(settings, console).run()


class _Sharing:
    """The act."""

    def __init__(
        self, settings: Settings, console: rich.console.Console
    ) -> None:
        self._settings = settings
        self._console = console
        self._period_s = DEVICE_PERIOD_S
        if settings.driver == pool.EMULATOR:
            self._period_s = PERIOD_S
        self._plan = pool.for_groups(
            self._period_s, RATE_SCALE, settings.driver
        )
        rng = np.random.default_rng(settings.seed)
        kinds = (
            (workload.AES, workload.aes_params),
            ("sha", lambda _rng: {"algorithm": "sha256"}),
        )
        self._accelerators = {
            name: accelerator
            for name, (accelerator, _) in zip(NAMES, kinds, strict=True)
        }
        self._programs = [
            programs.Program(
                name,
                make_params(rng),
                rng.bytes(TASK_BYTES[name]),
                arrivals_s,
            )
            for name, (_, make_params), of_group in zip(
                NAMES, kinds, draw_arrivals(settings.seed), strict=True
            )
            for arrivals_s in of_group
        ]

    def run(self) -> None:
        # Groups have sockets with long paths.
        with tempfile.TemporaryDirectory(prefix="fp-") as name:
            directory = pathlib.Path(name)
            self._say(f"starting {self._plan}")
            with pool.running(directory, self._plan) as testbed:
                self._say(f"watch it at {testbed.page_url}")
                self._warm_up(testbed)
                fixed = self._run(testbed, elastic=False)
                elastic = self._run(testbed, elastic=True)
            for outcome in (fixed, elastic):
                self._verify(directory, outcome)
        self._show(fixed, elastic)

    def _warm_up(self, testbed: pool.Pool) -> None:
        self._say("trying both accelerators in every slot")
        works = [
            warming.Work(self._accelerators[one.group], one.params)
            for one in self._programs[::CLIENTS]
        ]
        pool.warm_up(testbed, works)

    def _run(self, testbed: pool.Pool, *, elastic: bool) -> programs.Outcome:
        assert testbed.api_url is not None
        access = groups.Groups(testbed.api_url)
        sizes = "elastic" if elastic else "fixed"
        self._say(
            f"{sizes} sizes: {len(self._programs)} programs send tasks to"
            f" groups {' and '.join(NAMES)} of {_SLOTS // len(NAMES)} slots"
            " each"
        )
        ids = {
            name: access.create(
                name,
                self._accelerators[name],
                _SLOTS // len(NAMES),
                most=_SLOTS - 1,
                elastic=elastic,
            )
            for name in NAMES
        }
        outcome = programs.run(
            self._programs,
            # How long a device computes is not known before.
            dict.fromkeys(NAMES, TASK_S if self._plan.is_emulated else 1.0),
            lambda name: access.members(ids[name]),
            testbed.api_url,
        )
        for group_id in ids.values():
            access.delete(group_id)
        return outcome

    def _verify(
        self, directory: pathlib.Path, outcome: programs.Outcome
    ) -> None:
        """Check the outputs; all tasks of a program have the same one."""
        jobs = []
        for number, (program, output) in enumerate(
            zip(self._programs, outcome.outputs, strict=True), 1
        ):
            source, target = (
                directory / f"{kind}{number}" for kind in ("input", "output")
            )
            source.write_bytes(program.data)
            target.write_bytes(output)
            jobs.append(
                workload.Job(
                    number=number,
                    host="",
                    accelerator=self._accelerators[program.group],
                    params=program.params,
                    source=source,
                    output=target,
                    size_bytes=len(program.data),
                )
            )
        with display.counting(
            self._console, "checking outputs", len(jobs)
        ) as on_checked:
            verification.check_outputs(jobs, on_checked)
        self._say(
            f"verified the outputs of all {len(outcome.latencies_s)} tasks"
        )

    def _show(
        self, fixed: programs.Outcome, elastic: programs.Outcome
    ) -> None:
        before, after = measure(fixed), measure(elastic)
        self._console.print()
        tell = verdict if self._plan.is_emulated else summary
        self._say(tell(before, after))
        for name, sizes in zip(NAMES, elastic.course.members, strict=True):
            self._say(f"  group {name} had {min(sizes)} to {max(sizes)} slots")
        path = self._settings.out / PICTURE_NAME
        rates = f"this machine's {self._plan.driver} devices"
        if self._plan.is_emulated:
            rates = f"all modelled rates × {RATE_SCALE:g}"
        plots.draw_groups(
            {
                _title(name, values): outcome.course
                for name, values, outcome in (
                    ("fixed", before, fixed),
                    ("elastic, 'ahead'", after, elastic),
                )
            },
            NAMES,
            path,
            title=f"Two groups share {_SLOTS} slots: sizes and queues",
            subtitle=f"{len(self._programs)} programs, {before.tasks} tasks ·"
            f" {rates} · a look at the sizes each {self._period_s:g} s ·"
            f" white: slots of no group · seed {self._settings.seed}",
            queue_label="waiting, slot-s"
            if self._plan.is_emulated
            else "waiting tasks",
        )
        self._say(f"sizes and queues over time: {path.resolve()}")

    def _say(self, text: str) -> None:
        screen.say(self._console, text)


def _title(name: str, values: Values) -> str:
    return f"{name}: {values.mean_s:.2f} s on average for a task"


def draw_arrivals(seed: int) -> list[list[list[float]]]:
    """Return when tasks arrive, by group and program."""
    return arrivals.draw(
        [
            scenarios.Group(
                name=name,
                slots=1,
                clients=tuple(
                    scenarios.GroupClient(
                        name=str(number),
                        task_s=TASK_S,
                        load=tuple(
                            (length_s, slots[at] / CLIENTS)
                            for length_s, slots in LOAD
                        ),
                    )
                    for number in range(CLIENTS)
                ),
            )
            for at, name in enumerate(NAMES)
        ],
        seed,
        "demo",
    )
