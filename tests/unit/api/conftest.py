# SPDX-License-Identifier: Apache-2.0

"""Applications without anything real behind them."""

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api import fakes


@pytest.fixture
def make_world() -> Iterator[Callable[..., fakes.Api]]:
    """Give a function that makes an application."""
    made = []

    def make(*views: Any, **options: Any) -> fakes.Api:
        made.append(fakes.Api(*views, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def opened(make_world: Callable[..., fakes.Api]) -> fakes.Api:
    """Give an application whose hardware everybody sees."""
    return make_world(fakes.view(), policies=fakes.OPEN)


@pytest.fixture
def world(make_world: Callable[..., fakes.Api]) -> fakes.Api:
    """Give an application with one session, which is READY."""
    return make_world(fakes.view())
