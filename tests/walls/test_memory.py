# SPDX-License-Identifier: Apache-2.0

"""What a session without a cgroup of its own may take."""

from __future__ import annotations

import pathlib
import tempfile

import pytest

from fpgapool.vocabulary import codes
from tests.functional.agent import harness
from tests.functional.worker import harness as workers
from tests.walls import sessions

PIECE = bytes(range(256))


@pytest.mark.security
def test_sessions_that_take_all_memory_end_and_say_so():
    with (
        tempfile.TemporaryDirectory(prefix="fp-") as directory,
        workers.closed_channels(),
        harness.running_host(
            pathlib.Path(directory),
            driver_path=sessions.DRIVER,
            worker_memory_bytes=128 << 20,
        ) as host,
    ):
        agent = host.start()
        for slot in (0, 1):
            host.conductor.wait_for_slot(slot, lambda one: one.state == "idle")
        others = sessions.open_session(host, agent, 1, slot=1)
        for generation in range(2, 7):
            code = sessions.take_memory(host, agent, generation)
            assert code == codes.OUT_OF_MEMORY
            assert others.run(PIECE) == PIECE
