# SPDX-License-Identifier: Apache-2.0

"""Estimators in a whole pool: sessions, and groups that keep records."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sklearn.base
from sklearn import cluster
from sklearn import datasets

from fpgapool import client
from fpgapool import ml
from tests.functional.allinone import groupsite
from tests.functional.allinone import harness

DIGITS, NAMES = datasets.load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def door() -> Iterator[client.PoolApi]:
    """Give a pool of two slots, with a group for each estimator."""
    with harness.short_directory() as run_dir:
        with harness.Pool(run_dir, *harness.SMALL, "--api-port=0") as pool:
            url = pool.wait_until_ready()["api_url"]
            site = groupsite.Site(pool, url, pathlib.Path(run_dir))
            for name in ("km", "lr"):
                group = site.mine.create_group(
                    name=f"my-{name}", accelerator=name, size=1
                )
                site.wait_members(group.id, 1)
            yield client.PoolApi(site.mine)


def test_a_group_keeps_the_records(door: client.PoolApi) -> None:
    wanted = cluster.KMeans(10, random_state=0).fit(DIGITS)
    found = ml.KMeans(
        10, random_state=0, group="my-km", options={"front_door": door}
    ).fit(DIGITS)
    assert (found.labels_ == wanted.labels_).all()
    assert found.inertia_ == pytest.approx(wanted.inertia_, rel=1e-9)
    assert found.n_iter_ == wanted.n_iter_


def test_an_open_group_is_shared(door: client.PoolApi) -> None:
    one = ml.LogisticRegression(max_iter=50, tol=1e-2)
    with client.group_open("my-lr", front_door=door) as group:
        one.set_params(group=group)
        other: Any = sklearn.base.clone(one)
        assert other.group is group
        for each in (one, other):
            each.fit(DIGITS[:200] / 16, NAMES[:200])
        assert np.array_equal(one.coef_, other.coef_)
        group.check()
