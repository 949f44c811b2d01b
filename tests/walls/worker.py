# SPDX-License-Identifier: Apache-2.0

"""A driver whose cores do what a tenant's code could do in a worker: a piece
of input is JSON with the ``name`` of an attack, and what is different in the
``scene``; the output is how it went.
"""

from __future__ import annotations

import collections.abc
import json
import typing

from fpgapool.drivers import base
from tests.walls import attacks

DEVICE = "board0"
_OUTCOME_BYTES = 4096


class AttackingCore(base.Core):
    """Carries attacks out, in the thread of its session."""

    def __init__(self, scene: dict[str, typing.Any]) -> None:
        self._scene = scene

    def max_output_bytes(self, input_bytes: int) -> int:
        return _OUTCOME_BYTES

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        wanted = json.loads(bytes(chunk_in))
        scene = self._scene | wanted.get("scene", {})
        text = attacks.outcome(wanted["name"], scene)
        data = text.encode()[:_OUTCOME_BYTES]
        chunk_out[: len(data)] = data
        return len(data)


class AttackedDriver(base.Driver):
    """One board of two slots, which needs nothing outside the process.

    :param settings: with the ``scene`` of the attacks.
    """

    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        self._scene = settings["scene"]

    def discover(self) -> tuple[base.DeviceInfo, ...]:
        slots = tuple(base.SlotInfo(slot, "any", None) for slot in (0, 1))
        return (base.DeviceInfo(DEVICE, "attacked", 1e9, 0.0, slots),)

    def program(
        self,
        device: str,
        slot: int,
        bitstream: str,
        file: base.BitstreamFile | None = None,
    ) -> base.Profile:
        return base.Profile(
            name="copy",
            description="",
            peak_bytes_per_s=1e9,
            return_ratio=1.0,
            stateless=True,
            shapes=(),
            params_schema={},
            core="copy",
            chunk_multiple_bytes=1,
        )

    def open(
        self,
        device: str,
        slot: int,
        params: collections.abc.Mapping[str, typing.Any],
    ) -> base.Core:
        return AttackingCore(self._scene)

    def scrub(self, device: str, slot: int) -> None:
        return

    def health(self, device: str) -> base.Health:
        return base.Health(True)

    def telemetry(self, device: str) -> base.Telemetry:
        return base.Telemetry(None, None)
