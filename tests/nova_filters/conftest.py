# SPDX-License-Identifier: Apache-2.0

"""Nova's objects, and a pool instead of the API."""

from __future__ import annotations

import os
import typing
from collections.abc import Callable

import hypothesis
import pytest
from nova import config
from nova import objects

from fpgapool_nova_filters import snapshot
from tests.nova_filters import pools

# As all other tests of this repository, whose settings need what is not here.
hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
for _name in ("ci", "full"):
    hypothesis.settings.register_profile(
        _name, deadline=None, derandomize=True
    )
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session", autouse=True)
def _nova() -> None:
    config.parse_args(["nova-scheduler"], default_config_files=[])
    objects.register_all()


@pytest.fixture
def set_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., pools.Source]:
    """Give what says how the pool is; by default its API is away."""

    def set_to(answer: typing.Any) -> pools.Source:
        source = pools.Source(answer)
        cache = snapshot.Cache(
            source, pools.Clock(), ttl_s=5, max_age_s=60, wait_s=1
        )
        monkeypatch.setattr(snapshot, "cache", lambda: cache)
        return source

    set_to(OSError("nobody listens"))
    return set_to
