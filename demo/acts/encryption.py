# SPDX-License-Identifier: Apache-2.0

"""Act one: encrypt files from every host, and the user's own files."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import tempfile
from collections.abc import Sequence

import numpy as np
import rich.console

from demo import display
from demo import energy
from demo import execution
from demo import pool
from demo import verification
from demo import warming
from demo import workload
from demo.verification import decryption
from fpgapool.sim import plots
from fpgapool.sim import screen
from fpgapool.sim.outcomes import metrics

PICTURE_NAME = "timeline.png"

#: How long the boards should work, so that users can watch them.
WORK_S = 4.0
#: Two processor cores cannot compute more.
_HIGHEST_SCALE = 0.03


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The user's choices.

    :ivar files: the user's own files, which the act encrypts, too.
    :ivar out: directory for the picture; it exists.
    :ivar jobs: number of generated files.
    :ivar total_bytes: of the generated files.
    :ivar seed: of sizes, contents and keys.
    :ivar rate_scale: factor of all modelled rates; None: the act chooses one
        by the size of the files.
    :ivar driver: of the pool's boards.
    :ivar strategy: name of the scheduler's strategy.
    """

    files: Sequence[pathlib.Path]
    out: pathlib.Path
    jobs: int
    total_bytes: int
    seed: int
    rate_scale: float | None
    driver: str
    strategy: str


def perform(settings: Settings, console: rich.console.Console) -> None:
    """Encrypt and check all files, show the jobs and draw the picture.

    :param settings: the user's choices.
    :param console: for all output.
    :raises DemoError: if something goes wrong.
    :raises OSError: if a file cannot be read or written.
    """
    _Encryption(settings, console).run()


class _Encryption:
    """The act."""

    def __init__(
        self, settings: Settings, console: rich.console.Console
    ) -> None:
        self._settings = settings
        self._console = console
        self._rng = np.random.default_rng(settings.seed)
        self._user_bytes = workload.check_files(settings.files)
        scale = settings.rate_scale
        if scale is None:
            scale = _scale(settings.total_bytes + self._user_bytes)
        self._scale = scale

    def run(self) -> None:
        settings = self._settings
        with tempfile.TemporaryDirectory(prefix="fp-") as name:
            directory = pathlib.Path(name)
            workload.check_space(
                directory, 2 * settings.total_bytes + self._user_bytes
            )
            plan = pool.for_jobs(
                settings.strategy,
                settings.total_bytes / settings.jobs,
                self._scale,
                settings.driver,
            )
            self._say(f"starting {plan}")
            with pool.running(directory, plan) as testbed:
                self._say(f"watch it at {testbed.page_url}")
                self._say("trying the accelerator in every slot")
                params = workload.aes_params(self._rng)
                tried = pool.warm_up(
                    testbed, [warming.Work(workload.AES, params)]
                )
                assert testbed.api_url is not None
                before = energy.usage(testbed.api_url, tried)
                outcomes = self._encrypt(directory, testbed)
                after = energy.usage(
                    testbed.api_url, before.sessions + len(outcomes)
                )
            self._verify([outcome.job for outcome in outcomes])
        self._show(outcomes, testbed, energy.per_session_j(before, after))

    @property
    def _is_emulated(self) -> bool:
        return self._settings.driver == pool.EMULATOR

    def _encrypt(
        self, directory: pathlib.Path, testbed: pool.Pool
    ) -> list[execution.Outcome]:
        settings = self._settings
        self._say(
            f"generating {settings.jobs} files,"
            f" {settings.total_bytes / 1e6:.0f} MB together,"
            f" seed {settings.seed}"
        )
        sizes_bytes = workload.draw_sizes_bytes(
            settings.jobs, settings.total_bytes, self._rng
        )
        jobs = workload.make_jobs(
            directory, testbed.hosts, sizes_bytes, settings.files, self._rng
        )
        self._say(
            f"encrypting {len(jobs)} files by AES-256-CTR, from"
            f" {len(testbed.hosts)} hosts at once"
        )
        with display.make_display(self._console, jobs) as shown:
            return execution.run_jobs(jobs, testbed.front_doors, shown)

    def _verify(self, jobs: Sequence[workload.Job]) -> None:
        tool = decryption.TOOL
        with display.counting(
            self._console, f"decrypting with {tool}", len(jobs)
        ) as on_checked:
            verification.check_outputs(jobs, on_checked)
        self._say(
            f"verified: {tool} decrypts all {len(jobs)} outputs to their"
            " inputs"
        )

    def _show(
        self,
        outcomes: Sequence[execution.Outcome],
        testbed: pool.Pool,
        energy_j: float | None,
    ) -> None:
        results = [outcome.result() for outcome in outcomes]
        self._console.print()
        display.show_jobs(self._console, outcomes)
        self._console.print()
        display.show_metrics(self._console, metrics.measure(results), energy_j)
        self._console.print()
        path = self._settings.out / PICTURE_NAME
        self._draw(path, results, testbed)
        self._say(f"picture of the slots: {path.resolve()}")
        if not self._is_emulated:
            return
        self._say(
            f"all modelled rates were scaled by {self._scale:g}: times and"
            " MB/s are those of boards that much slower; the scheduler's size"
            " thresholds and waiting limits were scaled to the files' sizes"
            " and these rates"
        )

    def _draw(
        self,
        path: pathlib.Path,
        results: Sequence[metrics.JobResult],
        testbed: pool.Pool,
    ) -> None:
        # Another driver names its own devices.
        slots = testbed.slots() if self._is_emulated else []
        used = {(each.host, each.device, each.slot) for each in results}
        rates = f" · rates × {self._scale:g}" if self._is_emulated else ""
        measured = metrics.measure(results)
        plots.draw_timeline(
            results,
            path,
            slots=slots,
            title=f"{len(results)} jobs from {len(testbed.hosts)} hosts on"
            f" {len(slots) or len(used)} slots",
            subtitle=f"strategy {self._settings.strategy}{rates}"
            f" · ACT {measured.act_s:.2f} s"
            f" · TCT(95) {measured.tct95_s:.2f} s · SAR {measured.sar:.2f}"
            f" · DLR {measured.dlr:.2f}"
            f" · makespan {measured.makespan_s:.2f} s",
        )

    def _say(self, text: str) -> None:
        screen.say(self._console, text)


def _scale(total_bytes: int) -> float:
    """Return the scale of rates for this much work, with two digits."""
    scale = total_bytes / pool.BYTES_PER_S / WORK_S
    digits = 1 - math.floor(math.log10(scale))
    return min(_HIGHEST_SCALE, round(scale, digits))
