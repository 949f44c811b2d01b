# SPDX-License-Identifier: Apache-2.0

"""One project's flood of the REST API while the pool cannot answer."""

from __future__ import annotations

import collections
import concurrent.futures

import pytest

from tests.functional.api import harness
from tests.harness import waiting

# In the gate: tests/unit/api/test_crowd.py and tests/unit/api/test_app.py.
pytestmark = [pytest.mark.long, pytest.mark.security]

SHARE = 8
FLOOD = 100


@pytest.fixture(scope="session")
def mariadb(own_mariadb):
    """Give the server that tests here harm."""
    return own_mariadb


@pytest.mark.parametrize(
    "bound",
    [
        {"max_project_requests": SHARE},
        # By default a project may have more than there are threads.
        {"server_threads": harness.THREADS},
    ],
    ids=["configured", "of threads"],
)
def test_a_flood_while_the_database_does_not_answer(
    make_server, cloud, mariadb, bound
) -> None:
    """All are told to come later, others soon, and then all is well."""
    api = make_server(conductor_timeout_s=2, max_waiters=4, **bound)
    assert harness.THREADS > SHARE
    mariadb.pause()
    try:
        with concurrent.futures.ThreadPoolExecutor(FLOOD) as executor:
            flood = [executor.submit(api.open) for _ in range(FLOOD)]
            other = executor.submit(api.open, harness.OTHER_TOKEN)
            answers = [one.result() for one in (*flood, other)]
    finally:
        mariadb.resume()
    for answer in answers:
        assert answer.status in (429, 503), answer
        assert int(answer.headers["retry-after"]) > 0
    # It was not the share of the flood that was full for it.
    assert other.result().status == 503
    codes = collections.Counter(answer.code for answer in answers)
    assert codes["RATE_LIMITED"] >= FLOOD // 2, codes

    def accepted() -> bool:
        return api.open(harness.OTHER_TOKEN).status == 202

    waiting.wait_until(accepted, "requests are accepted again")
    # What was refused may have become a session: who asked may ask for it.
    cloud.check_consistent(live=None)
