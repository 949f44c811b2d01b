# SPDX-License-Identifier: Apache-2.0

"""The timeline as a file, and what is drawn into it."""

import dataclasses
import pathlib
import struct
import typing

import pytest
from matplotlib import figure as mpl_figure

from fpgapool.sim import plots
from fpgapool.sim.outcomes import metrics

JOB = metrics.JobResult(
    job_id="7",
    origin="node2",
    size_bytes=10,
    arrival_s=0,
    start_s=1,
    finish_s=5,
    host="node10",
    device="board0",
    slot=0,
    local=False,
)
OTHER = dataclasses.replace(
    JOB, job_id="8", origin=None, start_s=2, host="node2", slot=1
)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[mpl_figure.Figure]:
    """Keep every figure that is drawn."""
    drawn = []
    save = mpl_figure.Figure.savefig

    def keep(self: mpl_figure.Figure, *args: object, **kwargs: object) -> None:
        drawn.append(self)
        save(self, *args, **kwargs)

    monkeypatch.setattr(mpl_figure.Figure, "savefig", keep)
    return drawn


def size_of(path: pathlib.Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


def test_file_grows_with_the_slots(tmp_path: pathlib.Path) -> None:
    small, large = tmp_path / "small.png", tmp_path / "large.png"
    plots.draw_timeline([JOB], small)
    idle = [plots.SlotName("node1", "board0", n) for n in range(20)]
    plots.draw_timeline([JOB], large, slots=idle)
    assert size_of(small)[0] == size_of(large)[0]
    assert size_of(small)[1] < size_of(large)[1]


def test_rows_are_slots_in_natural_order(
    tmp_path: pathlib.Path, figures: list[mpl_figure.Figure]
) -> None:
    idle = [plots.SlotName("node2", "board0", 0)]
    plots.draw_timeline([JOB, OTHER], tmp_path / "t.png", slots=idle)
    timeline = figures[0].axes[0]
    rows = [label.get_text() for label in timeline.get_yticklabels()]
    assert rows == ["board0 · 0", "board0 · 1", "board0 · 0"]
    texts = [text.get_text() for text in timeline.texts]
    assert texts[:2] == ["node2", "node10"]


def test_bars_are_where_and_when_jobs_ran(
    tmp_path: pathlib.Path, figures: list[mpl_figure.Figure]
) -> None:
    local = dataclasses.replace(
        JOB, origin="node10", start_s=6, finish_s=9, local=True
    )
    plots.draw_timeline([JOB, local], tmp_path / "t.png")
    remote_bar, local_bar = (bars[0] for bars in figures[0].axes[0].containers)
    assert (remote_bar.get_x(), remote_bar.get_width()) == (1, 4)
    assert (local_bar.get_x(), local_bar.get_width()) == (6, 3)
    assert remote_bar.get_hatch() is not None
    assert local_bar.get_hatch() is None
    assert remote_bar.get_facecolor() != local_bar.get_facecolor()


def test_legend_names_origins_and_places(
    tmp_path: pathlib.Path, figures: list[mpl_figure.Figure]
) -> None:
    plots.draw_timeline([JOB, OTHER], tmp_path / "t.png", title="Ours")
    labels = [text.get_text() for text in figures[0].legends[0].texts]
    assert labels == [
        "from no host",
        "from node2",
        "local data",
        "remote data",
    ]
    assert "Ours" in [text.get_text() for text in figures[0].texts]


def test_waiting_jobs_are_counted(
    tmp_path: pathlib.Path, figures: list[mpl_figure.Figure]
) -> None:
    plots.draw_timeline([JOB, OTHER], tmp_path / "t.png")
    area = figures[0].axes[1].collections[0].get_paths()[0]
    assert area.vertices[:, 1].max() == 2


def test_more_hosts_than_colours(tmp_path: pathlib.Path) -> None:
    jobs = [
        dataclasses.replace(JOB, origin=f"node{number}")
        for number in range(30)
    ]
    plots.draw_timeline(jobs, tmp_path / "t.png")
    assert size_of(tmp_path / "t.png")[0] > 0


def test_nothing_cannot_be_drawn(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="no jobs"):
        plots.draw_timeline([], tmp_path / "t.png")
    assert list(tmp_path.iterdir()) == []


def test_directory_must_exist(tmp_path: pathlib.Path) -> None:
    with pytest.raises(OSError):
        plots.draw_timeline([JOB], tmp_path / "missing" / "t.png")


FFT = dataclasses.replace(JOB, kind="fft")
AES = dataclasses.replace(
    JOB, job_id="8", kind="aes", host="node2", finish_s=3, local=True
)


def test_schedules_have_rows_time_and_queues_in_common(
    tmp_path: pathlib.Path, figures: list[mpl_figure.Figure]
) -> None:
    schedules = {"one": [FFT, AES], "two": [AES]}
    plots.draw_comparison(schedules, tmp_path / "c.png")
    above, queue, below, other_queue = figures[0].axes[:4]
    labels = [
        [label.get_text() for label in axes.get_yticklabels()]
        for axes in (above, below)
    ]
    assert labels[0] == labels[1] == ["board0 · 0", "board0 · 0"]
    assert above.get_xlim() == below.get_xlim() == other_queue.get_xlim()
    assert queue.get_ylim() == other_queue.get_ylim()
    # Each in its own schedule, and in the row of its host.
    bars = [axes.containers[0][0] for axes in (above, below)]
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [(1, 4), (1, 2)]
    assert [round(bar.get_y() + bar.get_height() / 2) for bar in bars] == [
        1,
        0,
    ]


def test_comparison_names_schedules_kinds_and_places(
    tmp_path: pathlib.Path, figures: list[mpl_figure.Figure]
) -> None:
    plots.draw_comparison(
        {"one": [FFT, AES], "two": [JOB]}, tmp_path / "c.png"
    )
    labels = [text.get_text() for text in figures[0].legends[0].texts]
    assert labels == ["aes", "any kind", "fft", "local data", "remote data"]
    assert {"one", "two"} <= {text.get_text() for text in figures[0].texts}
    fft, aes = (bars[0] for bars in figures[0].axes[0].containers)
    assert fft.get_facecolor() != aes.get_facecolor()
    assert (fft.get_hatch(), aes.get_hatch()) == ("////", None)


def test_comparison_shows_the_metrics_of_each(
    tmp_path: pathlib.Path, figures: list[mpl_figure.Figure]
) -> None:
    schedules = {"one": [FFT], "two": [AES]}
    plots.draw_comparison(schedules, tmp_path / "c.png")
    act, _tct, _sar, dlr, makespan = figures[0].axes[4:]
    for axes, values in ((act, [5, 3]), (dlr, [0, 1]), (makespan, [5, 3])):
        assert [bar.get_width() for bar in axes.containers[0]] == values
        texts = [text.get_text() for text in axes.texts]
        assert texts == [f"{value:.2f}" for value in values]


@pytest.mark.parametrize("schedules", [{}, {"one": [FFT], "two": []}])
def test_no_comparison_without_jobs(
    tmp_path: pathlib.Path, schedules: dict[str, list[metrics.JobResult]]
) -> None:
    with pytest.raises(ValueError, match="no jobs"):
        plots.draw_comparison(schedules, tmp_path / "c.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("draw", [plots.draw_timeline, plots.draw_overview])
def test_pictures_that_are_compared_have_one_axis_of_time(
    draw: typing.Callable[..., None],
    tmp_path: pathlib.Path,
    figures: list[mpl_figure.Figure],
) -> None:
    slots = [plots.SlotName("node10", "board0", 0)]
    draw([JOB], tmp_path / "a.png", slots=slots, end_s=20.0)
    draw([JOB], tmp_path / "b.png", slots=slots)
    shared, own = (
        [axes.get_xlim() for axes in figure.axes] for figure in figures
    )
    assert shared == [pytest.approx((0, 20.1))] * 2
    assert own == [pytest.approx((0, 5.025))] * 2
