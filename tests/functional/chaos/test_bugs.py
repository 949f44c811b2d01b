# SPDX-License-Identifier: Apache-2.0

"""A run sees what is wrong with data that the library sends again."""

from __future__ import annotations

import pytest

from tests.chaos import __main__ as command
from tests.chaos import faults
from tests.chaos import run as runs
from tests.services import process

pytestmark = [pytest.mark.long, pytest.mark.alone]


@pytest.mark.parametrize("bug", ["skipped", "zeroed"])
def test_a_broken_resend_is_found(
    bug: str, service_workspace: process.Workspace, rabbitmq, mariadb
) -> None:
    rabbitmq.ensure_running()
    mariadb.ensure_running()
    options = runs.Options(
        seed=5,
        # Room for one fault.
        duration_s=20.0,
        clients=4,
        kinds=faults.named(["worker-kill"]),
        warm_up_s=1.0,
        calm_s=4.0,
        recovery_limit_s=10.0,
        bug=bug,
    )
    with command.staged(
        options, service_workspace, rabbitmq, mariadb, say_nothing
    ) as run:
        run.play()
        found = [p for p in run.problems if p.startswith("corrupted: ")]
        assert any("conduct='long'" in problem for problem in found)


def say_nothing(_text: str) -> None:
    pass
