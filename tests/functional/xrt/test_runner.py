# SPDX-License-Identifier: Apache-2.0

"""Kernels through AMD's own runtime, whose stand-in computes nothing."""

import pytest

from tests.functional.xrt import images
from tests.functional.xrt.conftest import outcome_of

DONE = {"output_bytes": 100_000, "unified": False}


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"instance": "copy_2"},
        {"kernel": "copy:{copy_1}", "instance": "copy_2"},
    ],
)
def test_open_load_run_and_free(begin, order):
    assert outcome_of(begin(**order)) == DONE


def test_two_processes_at_once(begin):
    processes = [begin(instance=name) for name in images.INSTANCES]
    assert [outcome_of(process) for process in processes] == [DONE] * 2


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ({"kernel": "vadd"}, "INVALID_MANIFEST"),
        ({"instance": "copy_3"}, "INVALID_MANIFEST"),
        ({"step": {"arguments": ["input"]}}, "INVALID_MANIFEST"),
        (
            {"step": {"arguments": ["input", "output", "input"]}},
            "INVALID_MANIFEST",
        ),
        (
            {"step": {"arguments": [{"ulong": 1}, "output", {"ulong": 1}]}},
            "INVALID_MANIFEST",
        ),
        ({"image": images.without_offsets()}, "KERNEL_BUILD_FAILED"),
        ({"image": images.image()[:1000]}, "KERNEL_BUILD_FAILED"),
    ],
)
def test_what_the_runtime_refuses(begin, order, code):
    assert outcome_of(begin(**order))["code"] == code
