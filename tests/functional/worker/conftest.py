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

"""Workers that are ended with their test."""

from __future__ import annotations

import pytest

from tests.functional.worker import harness


@pytest.fixture
def start(directory):
    """Start workers; their agents' ends are connected on request."""
    workers = []

    def start_worker(**members):
        worker = harness.WorkerProcess(directory, **members)
        workers.append(worker)
        return worker

    yield start_worker
    for worker in workers:
        worker.kill()


@pytest.fixture
def worker(start):
    return start()


@pytest.fixture
def agent(worker):
    end = worker.connect()
    yield end
    end.close()
