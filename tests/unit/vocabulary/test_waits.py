# SPDX-License-Identifier: Apache-2.0

"""How commands say how long a session will probably wait."""

import pytest

from fpgapool.client import dryrun
from fpgapool.vocabulary import session
from fpgapool.vocabulary import states


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        ((None, None, None), ""),
        ((40.0, None, None), "about 40 s"),
        ((40.0, 6.1, 1100.0), "about 40 s (9 of 10: 6.1 to 1100 s)"),
        ((0.024, 0.0, 0.5), "about 0.024 s (9 of 10: 0 to 0.5 s)"),
    ],
)
def test_a_wait_is_said_with_its_range(
    wait: tuple[float | None, float | None, float | None], text: str
) -> None:
    assert (
        session.wait_text(dryrun.DryRun(states.QUEUED, (), "", *wait)) == text
    )
