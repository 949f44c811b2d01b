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

"""A long queue is none of the garbage collector's business."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from fpgapool.conductor import heap


class _Ring:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_what_is_loaded_is_passed_over_until_it_is_spilt() -> None:
    with heap.filling():
        assert not gc.isenabled()
        ring = _Ring()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    seen = weakref.ref(ring)
    del ring
    gc.collect()
    assert seen() is not None
    heap.spill(collect=True)
    assert seen() is None
    assert gc.get_freeze_count() == 0


def test_a_failed_load_leaves_the_collector_at_work() -> None:
    with pytest.raises(RuntimeError), heap.filling():
        raise RuntimeError
    assert gc.isenabled()


def test_a_process_that_ends_need_not_collect() -> None:
    with heap.filling():
        ring = _Ring()
    seen = weakref.ref(ring)
    del ring
    heap.spill(collect=False)
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert seen() is None
