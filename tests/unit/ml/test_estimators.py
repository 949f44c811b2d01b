# SPDX-License-Identifier: Apache-2.0

"""Estimators, computed by this machine without a pool."""

from __future__ import annotations

import subprocess
import sys
import typing
import warnings

import numpy as np
import pytest
import sklearn.base
from sklearn import cluster
from sklearn import datasets
from sklearn import exceptions
from sklearn import linear_model
from sklearn import model_selection
from sklearn import pipeline
from sklearn import preprocessing
from sklearn.utils import estimator_checks

from fpgapool import client
from fpgapool import ml

CPU: dict[str, typing.Any] = {
    "front_door": "/nonexistent",
    "fallback": "cpu",
}
DIGITS, NAMES = datasets.load_digits(return_X_y=True)
#: What scikit-learn itself leaves out unless more is installed or set.
LEFT_OUT = {
    "check_array_api_input": "SCIPY_ARRAY_API is not set",
    "check_classifier_data_not_an_array": "pandas is not installed",
}


@pytest.mark.parametrize(
    "estimator",
    [
        ml.KMeans(options=CPU),
        # It is a classifier, too, and takes twice as long as the other one.
        pytest.param(
            ml.LogisticRegression(options=CPU), marks=pytest.mark.long
        ),
        ml.KNeighborsClassifier(options=CPU),
    ],
    ids=lambda one: type(one).__name__,
)
def test_checks_of_scikit_learn(estimator: sklearn.base.BaseEstimator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checked = estimator_checks.check_estimator(estimator, on_fail=None)
    assert len(checked) > 30
    assert [
        (one["check_name"], one["exception"])
        for one in checked
        if one["status"] != "passed"
        and LEFT_OUT.get(one["check_name"], "?") not in str(one["exception"])
    ] == []


@pytest.mark.parametrize(
    "options",
    [
        {"random_state": 0},
        {"random_state": 1, "init": "random", "n_init": 2},
        {"init": DIGITS[:10], "max_iter": 3},
        {
            "init": lambda X, k, random_state: X[np.arange(k) * 150],
            "n_init": 1,
            "max_iter": 3,
        },
    ],
    ids=["spread", "random", "given", "function"],
)
def test_digits_get_the_clusters_of_scikit_learn(
    options: dict[str, typing.Any],
) -> None:
    with warnings.catch_warnings():
        # Three steps are not enough.
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        found = ml.KMeans(10, options=CPU, **options).fit(DIGITS)
        wanted = cluster.KMeans(10, **options).fit(DIGITS)
    assert (found.labels_ == wanted.labels_).all()
    assert found.inertia_ == pytest.approx(wanted.inertia_, rel=1e-9)
    assert found.n_iter_ == wanted.n_iter_
    assert np.allclose(
        found.cluster_centers_, wanted.cluster_centers_, atol=1e-5
    )
    assert (found.predict(DIGITS) == wanted.predict(DIGITS)).all()
    assert np.allclose(found.transform(DIGITS), wanted.transform(DIGITS))
    assert found.score(DIGITS) == pytest.approx(wanted.score(DIGITS))


def test_a_centre_without_records_moves() -> None:
    """To where scikit-learn puts it."""
    records = np.array([[0.0], [1.0], [2.0], [30.0]])
    first = np.array([[1.0], [100.0], [200.0]])
    found = ml.KMeans(3, init=first, options=CPU).fit(records)
    wanted = cluster.KMeans(3, init=first).fit(records)
    assert found.labels_.tolist() == wanted.labels_.tolist()
    with pytest.warns(exceptions.ConvergenceWarning, match="distinct"):
        same = ml.KMeans(2, random_state=0, options=CPU).fit(np.ones((3, 1)))
    assert same.inertia_ == 0


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("strength", [1.0, 0.01])
@pytest.mark.parametrize("intercept", [True, False])
def test_digits_get_the_weights_of_scikit_learn(
    classes: int, strength: float, intercept: bool
) -> None:
    records, names = DIGITS[:300] / 16, NAMES[:300] % classes
    options = {"C": strength, "tol": 1e-7, "fit_intercept": intercept}
    found = ml.LogisticRegression(options=CPU, max_iter=1000, **options)
    found.fit(records, names)
    wanted = linear_model.LogisticRegression(max_iter=1000, **options)
    wanted.fit(records, names)
    limit = 5e-3 * np.abs(wanted.coef_).max()
    assert found.coef_.shape == wanted.coef_.shape
    assert np.abs(found.coef_ - wanted.coef_).max() < limit
    assert np.abs(found.intercept_ - wanted.intercept_).max() < limit
    assert (found.predict(records) == wanted.predict(records)).all()
    assert np.allclose(
        found.predict_proba(records), wanted.predict_proba(records), atol=3e-3
    )
    assert np.allclose(found.predict_proba(records).sum(axis=1), 1)
    assert found.score(records, names) == wanted.score(records, names)


def test_steps_that_are_not_enough() -> None:
    with pytest.warns(exceptions.ConvergenceWarning, match="max_iter=2"):
        found = ml.LogisticRegression(max_iter=2, options=CPU).fit(
            DIGITS[:100], NAMES[:100]
        )
    assert found.n_iter_.tolist() == [2]


def test_the_nearest_series() -> None:
    """Each series is near those of its class, later or earlier in time."""
    chance = np.random.default_rng(4)
    starts = chance.integers(0, 20, 60)
    names = np.array(["up", "down", "flat"])[chance.integers(0, 3, 60)]
    series = chance.normal(scale=0.05, size=(60, 40))
    for one, start, name in zip(series, starts, names, strict=True):
        one[start : start + 15] += {"up": 1, "down": -1, "flat": 0}[name]
    found = ml.KNeighborsClassifier(3, options=CPU)
    found.fit(series[:40], names[:40])
    assert found.score(series[40:], names[40:]) == 1
    distances, near = found.kneighbors(series[40:], 2)
    assert near.shape == (20, 2)
    assert (distances[:, 0] <= distances[:, 1]).all()
    assert distances[3, 1] == ml.dtw(series[43], series[near[3, 1]], **CPU)
    with pytest.raises(ValueError, match="n_samples_fit = 40"):
        found.kneighbors(series, 41)


def test_a_distance() -> None:
    assert ml.dtw([0, 0, 1], [0, 1, 1], **CPU) == 0
    assert ml.dtw([0, 0, 1], [0, 1, 1], window_samples=0, **CPU) == 1
    assert ml.dtw([[0, 1], [2, 3]], [0, 1], **CPU).tolist() == [
        0.0,
        pytest.approx(np.sqrt(8)),
    ]


def test_estimators_work_in_searches_and_pipelines() -> None:
    search = model_selection.GridSearchCV(
        pipeline.make_pipeline(
            preprocessing.StandardScaler(), ml.LogisticRegression(options=CPU)
        ),
        {"logisticregression__C": [0.01, 1]},
        cv=2,
    ).fit(DIGITS[:200], NAMES[:200])
    assert search.score(DIGITS[:200], NAMES[:200]) > 0.9


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (ml.KMeans(5), "n_samples=3 should be >= n_clusters=5"),
        (ml.KMeans(2, init="best"), "init must be"),
        (ml.KMeans(2, init=[[1.0]]), r"\(1, 1\), not \(2, 2\)"),
        (ml.KMeans(0), "at least 1"),
        (ml.LogisticRegression(C=0), "C must be more than 0"),
        (ml.KNeighborsClassifier(0), "at least 1"),
    ],
)
def test_bad_values_are_refused(estimator: typing.Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator.set_params(options=CPU).fit(np.eye(3, 2), [0, 1, 1])


@pytest.mark.parametrize("kind", [ml.KMeans, ml.LogisticRegression])
def test_numbers_beyond_single_precision_are_refused(
    kind: typing.Any,
) -> None:
    with pytest.raises(ValueError, match="float32"):
        kind(options=CPU).fit(np.eye(9) * 1e40, np.arange(9) % 2)


def test_errors_of_the_pool_are_the_clients() -> None:
    with pytest.raises(client.FrontDoorUnavailable):
        ml.KMeans(2, options={"front_door": "/nonexistent"}).fit(np.eye(3))


@pytest.mark.parametrize("library", ["sklearn", "numpy"])
def test_a_missing_extra_is_named(library: str) -> None:
    program = (
        "import sys\n"
        f"sys.modules[{library!r}] = None\n"
        "from fpgapool import ml\n"
        "ml.KMeans\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: fpgapool.ml requires")
    assert "pip install 'fpgapool[ml]'" in last


def test_importing_the_package_loads_no_library() -> None:
    program = (
        "import sys\n"
        "from fpgapool import ml\n"
        "sys.exit('numpy' in sys.modules or 'sklearn' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("group", "given", "message"),
    [
        (None, "fallbck", "options: unknown option 'fallbck'; did you mean "),
        (None, "params", "options: unknown option 'params'"),
        ("any", "aplication", "option 'aplication'; did you mean appl"),
    ],
)
def test_options_that_there_are_not(
    group: str | None, given: str, message: str
) -> None:
    estimator = ml.KMeans(2, group=group, options={given: "cpu"})
    with pytest.raises(TypeError, match=message):
        estimator.fit(DIGITS[:9])
