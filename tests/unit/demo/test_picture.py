# SPDX-License-Identifier: Apache-2.0

"""The picture of several schedules of the same jobs."""

import dataclasses
import pathlib

import pytest
from matplotlib import figure as mpl_figure

from demo import picture
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


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[mpl_figure.Figure]:
    """Keep every figure that is drawn."""
    drawn: list[mpl_figure.Figure] = []
    monkeypatch.setattr(
        mpl_figure.Figure,
        "savefig",
        lambda figure, *_, **__: drawn.append(figure),
    )
    return drawn


FFT = dataclasses.replace(JOB, kind="fft")
AES = dataclasses.replace(
    JOB, job_id="8", kind="aes", host="node2", finish_s=3, local=True
)


def test_schedules_have_rows_time_and_queues_in_common(
    tmp_path: pathlib.Path, figures: list[mpl_figure.Figure]
) -> None:
    schedules = {"one": [FFT, AES], "two": [AES]}
    picture.draw_comparison(schedules, tmp_path / "c.png")
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
    picture.draw_comparison(
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
    picture.draw_comparison(schedules, tmp_path / "c.png")
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
        picture.draw_comparison(schedules, tmp_path / "c.png")
    assert list(tmp_path.iterdir()) == []
