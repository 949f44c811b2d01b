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

"""Applications without anything real behind them."""

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api import fakes


@pytest.fixture
def make_world() -> Iterator[Callable[..., fakes.World]]:
    """Give a function that makes an application."""
    made = []

    def make(*views: Any, **options: Any) -> fakes.World:
        made.append(fakes.World(*views, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def world(make_world: Callable[..., fakes.World]) -> fakes.World:
    """Give an application with one session, which is READY."""
    return make_world(fakes.view())
