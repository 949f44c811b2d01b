# SPDX-License-Identifier: Apache-2.0

"""The state machine of a worker."""

import pytest

from fpgapool.agent.worker import state
from tests.harness import machines


@pytest.fixture
def machine():
    """Give a machine with an agent; it obeys its rules to the end."""
    made = state.Machine(0.0, orphan_s=600.0)
    made.handle(state.AgentConnected(), 0.0)
    yield made
    machines.check(made)
