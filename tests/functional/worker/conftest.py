# SPDX-License-Identifier: Apache-2.0

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
