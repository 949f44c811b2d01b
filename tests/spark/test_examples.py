# SPDX-License-Identifier: Apache-2.0

"""The programs of the documentation, with and without a pool."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy
import pytest
from sklearn import cluster as sklearn_cluster
from sklearn import datasets

from tests.functional.allinone import harness
from tests.spark import cluster

EXAMPLES = cluster.ROOT / "doc" / "examples" / "spark"
PARTITIONS = 2
STEPS = {"lr": 30, "km": 20}


class Learner:
    """Runs programs, and keeps what they have learnt."""

    def __init__(self, directory: pathlib.Path, pool: cluster.Pool) -> None:
        self.directory = directory
        self.pool = pool
        self._environment = {
            **os.environ,
            **cluster.ENVIRONMENT,
            "FPGAPOOL_SOCKET": pool.pool.front_door(),
            "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf"
            f" spark.local.dir={directory} pyspark-shell",
        }

    def path(self, name: str) -> pathlib.Path:
        return self.directory / f"{name}.npz"

    def learn(self, name: str) -> tuple[str, numpy.ndarray, numpy.ndarray]:
        """Return what a program prints, its model and its losses."""
        printed = self.run(f"{name}.py", str(self.path(name)))
        with numpy.load(self.path(name)) as learnt:
            return printed, learnt["model"], learnt["losses"]

    def run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, EXAMPLES / program, *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout


@pytest.fixture(scope="module")
def learner(
    tmp_path_factory: pytest.TempPathFactory,
) -> Learner:
    with harness.short_directory() as directory:
        with cluster.pool(directory / "run", "--unlimited") as pool:
            yield Learner(tmp_path_factory.mktemp("models"), pool)


@pytest.mark.parametrize("name", ["lr", "km"])
def test_the_models_are_the_same(learner: Learner, name: str) -> None:
    printed, model, losses = learner.learn(f"{name}_plain")
    assert learner.pool.sessions() == []
    again, model_of_pool, losses_of_pool = learner.learn(f"{name}_pool")
    sessions = learner.pool.sessions()
    assert len(sessions) == PARTITIONS * STEPS[name]
    assert {one.accelerator for one in sessions} == {name}
    assert printed == again
    # Sums of other orders are rounded otherwise, once to single precision.
    assert numpy.allclose(model, model_of_pool, rtol=1e-4, atol=1e-5)
    assert numpy.allclose(losses, losses_of_pool, rtol=1e-6)
    assert losses[-1] < losses[0]
    assert len(losses) == STEPS[name]


def test_the_models_are_good(learner: Learner) -> None:
    """Compared with what scikit-learn makes of the same data."""
    with numpy.load(learner.path("lr_pool")) as learnt:
        assert learnt["losses"][-1] < 0.15 * learnt["losses"][0]
    points = datasets.load_digits().data
    other = sklearn_cluster.KMeans(
        10, init=points[:10], n_init=1, max_iter=300, random_state=0
    ).fit(points)
    with numpy.load(learner.path("km_pool")) as learnt:
        assert learnt["losses"][-1] <= 1.01 * other.inertia_


def test_the_picture_shows_them(learner: Learner) -> None:
    models = ("lr_plain", "lr_pool", "km_plain", "km_pool")
    picture = learner.directory / "models.png"
    learner.run(
        "plot.py", *(str(learner.path(one)) for one in models), str(picture)
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
