# SPDX-License-Identifier: Apache-2.0

"""A partition of Spark in a real pool, without Spark."""

from __future__ import annotations

import collections
import pathlib
import subprocess
from collections.abc import Iterator

import numpy
import pytest

from fpgapool import spark
from fpgapool.spark import partitions
from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.functional.allinone import tasksite

#: A task of a group has no whole number of such frames in 1 MiB.
SAMPLES = 1000
FRAMES = 400


class Fft(spark.Accelerator):
    id = "fft"
    params = {"frame_samples": SAMPLES}
    codec = spark.ArrayCodec("<c8", SAMPLES)


@pytest.fixture(scope="module")
def site() -> Iterator[tasksite.Site]:
    """Give a pool of two slots on two hosts."""
    with harness.short_directory() as run_dir:
        with harness.Pool(
            run_dir,
            *("--hosts=2", "--boards=1", "--slots=2", "--unlimited"),
            "--api-port=0",
        ) as pool:
            url = pool.wait_until_ready()["api_url"]
            yield tasksite.Site(pool, url, run_dir)


@pytest.mark.parametrize("group", [None, "spectra"])
def test_results_are_those_of_the_accelerator(
    site: tasksite.Site, monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    monkeypatch.setenv("FPGAPOOL_SOCKET", site.pool.front_door())
    monkeypatch.setattr(partitions, "_request_id", lambda application: "one")
    made = site.user.create_group(name="spectra", accelerator="fft", size=1)
    counted: collections.Counter[str] = collections.Counter()
    counts = partitions.Counts(
        lambda: counted.update(["served"]),
        lambda: counted.update(["fallback"]),
    )
    before = len(list(site.user.sessions()))
    rng = numpy.random.default_rng(5)
    frames = rng.normal(size=(FRAMES, SAMPLES)).astype("<c8")
    partition = partitions.Partition(Fft(), "app-1", group, counts)
    results = numpy.array(list(partition.run(iter(frames))))
    assert counted == {"served": 1}
    expected = numpy.fft.fft(frames)
    assert numpy.allclose(
        results, expected, atol=1e-5 * numpy.abs(expected).max()
    )
    opened = len(list(site.user.sessions())) - before
    assert opened == (1 if group is None else 0)
    site.user.delete_group(made.id)


def test_the_command_for_yarn_waits_for_the_pool(
    tmp_path: pathlib.Path,
) -> None:
    process = subprocess.Popen(
        harness.command("yarn_labels", "--socket", str(tmp_path / "none")),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert codes.FRONT_DOOR_UNAVAILABLE in process.stderr.readline()
    process.terminate()
    process.communicate(timeout=harness.LIMIT_S)
    assert process.returncode == 0
