# SPDX-License-Identifier: Apache-2.0

"""A driver that takes its worker over: the worker of slot 0 then lies."""

from __future__ import annotations

import gc
import json
import os
import typing

from fpgapool.agent.child import control
from fpgapool.agent.worker import service
from fpgapool.drivers import base
from fpgapool.drivers import emulator
from fpgapool.protocol import messages

#: What it says instead of the truth, as JSON.
VARIABLE = "FPGAPOOL_LIE"


def _all(kind: type) -> list[typing.Any]:
    return [one for one in gc.get_objects() if isinstance(one, kind)]


class LyingDriver(emulator.EmulatorDriver):
    """Has the emulator's boards."""

    def program(
        self, device: str, slot: int, *arguments: typing.Any
    ) -> base.Profile:
        if slot == 0:
            (worker,) = _all(service.Worker)
            status = {**worker.status(), **json.loads(os.environ[VARIABLE])}
            lie = messages.notification("status", status=status)
            for agent in _all(control.Agent):
                agent._channel.send(messages.encode(lie))
        return super().program(device, slot, *arguments)
