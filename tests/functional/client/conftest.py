#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Pools for tests of the client library."""

import pytest

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


@pytest.fixture(params=cases.some(["shm", "tcp", "tls"], "tcp".__ne__))
def door(request, directory):
    """A pool of one slot, with a real worker."""
    made = slots.Door(directory, request.param)
    yield made
    made.stop()


@pytest.fixture
def local_door(directory):
    """The same with shared memory only."""
    made = slots.Door(directory, "shm")
    yield made
    made.stop()
