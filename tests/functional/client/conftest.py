# SPDX-License-Identifier: Apache-2.0

"""Pools for tests of the client library."""

import pytest

from fpgapool.client.sessions import opening
from tests.functional.client import fakepool
from tests.harness import cases
from tests.harness import slots


@pytest.fixture
def pools(tmp_path):
    """Make pools; they stop with the test, and must have seen no errors."""
    made = []

    def make(core="copy", budgets=(), spares=(), **options):
        worker = fakepool.Worker(core, tuple(budgets), **options)
        pool = fakepool.Pool(
            tmp_path / f"door{len(made)}.sock", worker, spares=tuple(spares)
        )
        made.append(pool)
        return pool

    yield make
    for pool in made:
        pool.stop()
    assert [pool.violations for pool in made] == [[]] * len(made)


TRANSPORTS = ["shm", "tcp", "tls", "tcp-return", "tls-return"]
IN_GATE = {"shm", "tls", "tcp-return"}


@pytest.fixture(params=cases.some(TRANSPORTS, IN_GATE.__contains__))
def door(request, directory, monkeypatch):
    """A pool of one slot, with a real worker."""
    transport, _, returns = request.param.partition("-")
    if returns:
        monkeypatch.setattr(opening, "RETURN_FROM_BYTES", 0)
    with slots.Door(directory, transport) as made:
        yield made


@pytest.fixture
def local_door(directory):
    """The same with shared memory only."""
    with slots.Door(directory, "shm") as made:
        yield made
