# SPDX-License-Identifier: Apache-2.0

"""What a driver says of its boards when its agent starts."""

from __future__ import annotations

import pytest

from fpgapool.agent.host import boards
from fpgapool.drivers import base
from fpgapool.drivers import noop

DEVICE = base.DeviceInfo("board0", "model", 1e9, 1.0, ())


class Driver(noop.NoopDriver):
    """Says of its board what a test wants.

    :param found: its health, or what checking it raises.
    """

    def __init__(self, found: base.Health | Exception) -> None:
        self._found = found

    def health(self, device: str) -> base.Health:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (base.Health(True), None),
        (base.Health(True, "a remark"), None),
        (base.Health(False), "the driver reports a fault"),
        (
            base.Health(False, "it burns:\n\n  brightly\n"),
            "it burns: brightly",
        ),
        (
            base.DriverError("DEVICE_FAILED", "one\ntwo"),
            "DriverError: DEVICE_FAILED: one two",
        ),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
    ],
)
def test_a_board_is_tried(found, fault) -> None:
    tried = boards.Boards(Driver(found), [DEVICE], None, None).try_all()
    assert tried == {"board0": fault}
