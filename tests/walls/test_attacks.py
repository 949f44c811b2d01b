# SPDX-License-Identifier: Apache-2.0

"""Code in a worker, a desk or a compiler gets nothing that it should not.

Each process tries everything once, as root and as an ordinary user where root
runs the tests. What only a control group stops is in ``test_agent``, because
the agent makes it.
"""

from __future__ import annotations

import functools
import os

import pytest

from tests.walls import attacks
from tests.walls import site

USERS = (
    {"root": None, "user": site.ORDINARY}
    if os.geteuid() == 0
    else {"user": None}
)
TRIED = [one for one in attacks.ATTACKS.values() if not one.cgroup]


@functools.cache
def outcomes(place: str, user: str) -> dict[str, str]:
    """Return how all attacks went; nothing where the user cannot start."""
    if not site.can_run(USERS[user]):
        return {}
    return site.outcomes(place, USERS[user])


@pytest.mark.security
@pytest.mark.parametrize("attack", TRIED, ids=lambda one: one.name)
@pytest.mark.parametrize("place", site.PLACES)
@pytest.mark.parametrize("user", USERS)
def test_it_gets_nothing(
    user: str, place: str, attack: attacks.Attack
) -> None:
    if attack.landlock > site.landlock_version():
        pytest.skip(f"this kernel lacks version {attack.landlock} of Landlock")
    found = outcomes(place, user).get(attack.name)
    if found is None:
        pytest.skip("an ordinary user cannot read this directory")
    assert found.startswith(attack.allowed), f"it {attack.tried}: {found}"
