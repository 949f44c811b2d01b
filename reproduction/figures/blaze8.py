# SPDX-License-Identifier: Apache-2.0

"""Figure 8 of the paper on Blaze: what sharing a board costs COMP.

Streams of blocks are compressed on one board. In a shared board's process
blocks are copied once more than in the application's own one. All but the
kernel is work of each stream's own core. A second is what a block takes in one
stream with a board of its own.
"""

from __future__ import annotations

import dataclasses
import pathlib

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import tables
from reproduction.figures import verdicts

STREAMS = (1, 12)
#: The paper's throughput of one stream, in times of Snappy on a core.
PAPER_OWN = 8.5
PAPER_SHARED = 5.6
#: The same of twelve streams, in times of Snappy on twelve cores.
PAPER_TWELVE = 1.7
#: Java's Gzip, in times of Snappy.
GZIP = 0.1
#: The least that a shared board should reach of an own one, by streams.
TARGETS = {1: 0.6, 12: 0.95}
#: How far a value may be from the paper's, relatively.
TOLERANCE = 0.1
#: What the copy adds, and the part of the time that is no kernel with it.
_COPY_S = 0.5
_NO_KERNEL = 0.76
_KERNEL_S = (1 - _NO_KERNEL) * (1 + _COPY_S)
_BLOCKS = 200
_BYTES_PER_S = 1e6
_HEIGHT_IN = 4.2


@dataclasses.dataclass(frozen=True)
class StreamsRun:
    """Streams on one board.

    :ivar shared: whether the board is shared with other applications.
    """

    streams: int
    shared: bool

    def measure(self) -> float:
        """Simulate; return blocks per second."""
        own_s = 1 - _KERNEL_S
        scenario = scenarios.Scenario(
            format=scenarios.FORMAT,
            cluster=scenarios.Cluster(
                hosts=1,
                fpga_hosts=(0,),
                slots_per_device=1,
                accelerators={
                    "deflater": scenarios.AcceleratorProfile(_BYTES_PER_S)
                },
                # All streams begin at about the same time.
                heartbeat_s=0.001,
                containers_per_device=self.streams,
            ),
            strategies={"naive": scenarios.StrategyOptions()},
            jobs=[
                scenarios.JobSpec(
                    id=number,
                    host=None,
                    size_bytes=_BLOCKS * _KERNEL_S * _BYTES_PER_S,
                    arrival_s=0.0,
                    accelerator="deflater",
                    tasks=_BLOCKS,
                    cpu_s_per_task=own_s + _COPY_S if self.shared else own_s,
                )
                for number in range(self.streams)
            ],
        )
        outcomes = simulation.run(scenario, "naive")
        end_s = max(outcome.finish_s for outcome in outcomes)
        return self.streams * _BLOCKS / end_s


def compare(measure: experiments.Measure) -> dict[StreamsRun, float]:
    """Simulate one and twelve streams.

    :returns: throughput in times of Snappy on one core.
    """
    runs = [
        StreamsRun(streams, shared)
        for streams in STREAMS
        for shared in (False, True)
    ]
    found = measure(runs)
    return {run: PAPER_OWN * found[run] for run in runs}


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write a picture, its numbers and its claims; see the package."""
    found = compare(measure)
    tables.write(
        out_dir / "blaze8.csv",
        ("streams", "board", "times_snappy_on_a_core"),
        [
            (run.streams, _board(run.shared), f"{value:.6g}")
            for run, value in found.items()
        ],
    )
    claims = _claims(found)
    verdicts.write(out_dir / "blaze8-claims.csv", claims)
    _draw(found, out_dir / "blaze8.png")
    return verdicts.say(
        "Figure 8 of the paper on Blaze (the paper's own copy and kernel "
        "times)",
        claims,
    )


def _board(shared: bool) -> str:
    return "shared" if shared else "own"


def ratio(found: dict[StreamsRun, float], streams: int) -> float:
    """Return the throughput of a shared board over that of an own one."""
    return found[StreamsRun(streams, True)] / found[StreamsRun(streams, False)]


def _claims(found: dict[StreamsRun, float]) -> list[verdicts.Claim]:
    one, twelve = (ratio(found, streams) for streams in STREAMS)
    paper = PAPER_SHARED / PAPER_OWN
    last = STREAMS[-1]
    against = found[StreamsRun(last, True)] / last
    return [
        verdicts.Claim(
            "one stream is slower on a shared board",
            f"{PAPER_SHARED:g} against {PAPER_OWN:g} ×, a ratio of "
            f"{paper:.2f}",
            f"{one:.2f}",
            abs(one / paper - 1) <= TOLERANCE and one >= TARGETS[1],
        ),
        verdicts.Claim(
            "twelve streams are as fast on a shared board",
            "similar",
            f"a ratio of {twelve:.2f}; the kernel is the bottleneck",
            twelve >= TARGETS[last],
        ),
        verdicts.Claim(
            "twelve streams beat Snappy on twelve cores",
            f"{PAPER_TWELVE:g} × (Table 1 has 3 ×)",
            f"{against:.2f} ×, if Snappy is {last} times as fast on {last} "
            "cores",
            abs(against / PAPER_TWELVE - 1) <= TOLERANCE,
        ),
    ]


def _draw(found: dict[StreamsRun, float], path: pathlib.Path) -> None:
    figure, grid = style.make_panels(
        _HEIGHT_IN, (1, 2), left=0.04, bottom=0.09, top=0.7, gaps=(0.0, 0.1)
    )
    names = ("Gzip", "Snappy", "own board", "shared board")
    colours = style.colours_of(names)
    for axes, streams in zip(grid[0], STREAMS, strict=True):
        paper = (PAPER_OWN, PAPER_SHARED)
        if streams > 1:
            paper = (PAPER_TWELVE * streams,) * 2
        values = [
            GZIP * streams,
            float(streams),
            found[StreamsRun(streams, False)],
            found[StreamsRun(streams, True)],
        ]
        for place, (name, value) in enumerate(zip(names, values, strict=True)):
            axes.bar(place, value, width=0.6, color=colours[name], label=name)
            axes.text(
                place,
                value,
                f"{value:.1f}",
                ha="center",
                va="bottom",
                fontsize=8.5,
            )
        axes.hlines(
            paper, [1.7, 2.7], [2.3, 3.3], color=style.INK, label="paper"
        )
        axes.set_xticks([])
        style.prepare_axes(axes, "y")
        style.name_panel(
            axes, "one stream" if streams == 1 else f"{streams} streams"
        )
    style.add_legend(figure, grid[0][0].get_legend_handles_labels()[0])
    style.write_texts(
        figure,
        "Figure 8 of Blaze: what sharing a board costs COMP",
        "Throughput in times of Snappy on one core; Gzip and Snappy as the "
        "paper has them on one core, and twelve times that on twelve.",
    )
    style.save(figure, path)
