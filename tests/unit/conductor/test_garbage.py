# SPDX-License-Identifier: Apache-2.0

"""A long queue is none of the garbage collector's business."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from fpgapool.conductor.runtime import garbage


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
    with garbage.filling():
        assert not gc.isenabled()
        ring = _Ring()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    seen = weakref.ref(ring)
    del ring
    gc.collect()
    assert seen() is not None
    garbage.spill(collect=True)
    assert seen() is None
    assert gc.get_freeze_count() == 0


def test_a_failed_load_leaves_the_collector_at_work() -> None:
    with pytest.raises(RuntimeError), garbage.filling():
        raise RuntimeError
    assert gc.isenabled()


def test_a_process_that_ends_need_not_collect() -> None:
    with garbage.filling():
        ring = _Ring()
    seen = weakref.ref(ring)
    del ring
    garbage.spill(collect=False)
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert seen() is None
