# SPDX-License-Identifier: Apache-2.0

"""The driver for hosts without boards."""

from __future__ import annotations

import collections.abc
import typing

from fpgapool.drivers import base
from fpgapool.vocabulary import codes


class NoopDriver(base.Driver):
    """A driver without boards: the agent serves only clients on its host."""

    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        pass

    def discover(self) -> tuple[base.DeviceInfo, ...]:
        return ()

    def program(
        self,
        device: str,
        slot: int,
        bitstream: str,
        file: base.BitstreamFile | None = None,
    ) -> base.Profile:
        raise _no_such_slot(device)

    def open(
        self,
        device: str,
        slot: int,
        params: collections.abc.Mapping[str, typing.Any],
    ) -> base.Core:
        raise _no_such_slot(device)

    def scrub(self, device: str, slot: int) -> None:
        raise _no_such_slot(device)

    def health(self, device: str) -> base.Health:
        return base.Health(False, "this host has no boards")

    def telemetry(self, device: str) -> base.Telemetry:
        raise _no_such_slot(device)


def _no_such_slot(device: str) -> base.DriverError:
    return base.DriverError(
        codes.NO_SUCH_SLOT,
        f"device {device!r} was not found: this host has no boards",
    )
