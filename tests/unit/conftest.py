# SPDX-License-Identifier: Apache-2.0

"""A file of tests leaves nothing open."""

import gc
import warnings
from collections.abc import Iterator

import pytest

from fpgapool.agent.child import memory


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_open() -> Iterator[None]:
    """Fail here, not in whichever test runs when the collector finds it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        gc.collect()
    # What is left is mostly what modules keep. Each later collection would go
    # through it again, a fifth of a second for every file.
    gc.freeze()


@pytest.fixture(autouse=True)
def _memory_is_not_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of a later test would exit after its first session."""
    monkeypatch.setattr(memory, "_is_spent", False)
