# SPDX-License-Identifier: Apache-2.0

"""Uses a board through the driver, in a process of its own.

The first argument is what to do, as JSON; the last line of the output has the
outcomes. The runtime writes to the output, too.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from fpgapool.drivers import base
from fpgapool.drivers.opencl import devices
from fpgapool.drivers.opencl import driver
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import formats
from tests.harness import xrt

MARK = "outcomes: "
DEVICE = "card"


class _Steps:
    """What a process may be ordered to do."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._driver = driver.OpenCLDriver(settings)

    def discover(self) -> list[Any]:
        """Find boards: name, model, shape and slots of each."""
        return [
            [each.name, each.model, each.slots[0].shape, len(each.slots)]
            for each in self._driver.discover()
        ]

    def health(self) -> list[Any]:
        """Look at the board, and say how it is."""
        self._driver.health(DEVICE)
        watch = self._driver._watch
        assert watch is not None
        watch.check()
        watch.wait()
        health = self._driver.health(DEVICE)
        return [health.healthy, health.message]

    def unplug(self) -> None:
        """Take the board out: processes that begin now do not find it."""
        del os.environ[xrt.STAND_IN]

    def shell(self, directory: str) -> None:
        """Let the board have a shell, as Linux shows it."""
        devices.interface_uuid = functools.partial(
            devices.interface_uuid, directory=pathlib.Path(directory)
        )

    def program(self, slot: int, path: str, kind: str = formats.XCLBIN) -> str:
        """Program a slot with a file of the library."""
        contents = pathlib.Path(path).read_bytes()
        digest = hashlib.sha256(contents).hexdigest()
        file = base.BitstreamFile("copy", path, digest, len(contents), kind)
        name = f"bitstream:{digest}"
        return self._driver.program(DEVICE, slot, name, file).name

    def builtin(self, slot: int) -> str:
        """Program a slot with a kernel that comes with fpgapool."""
        return self._driver.program(DEVICE, slot, "builtin:copy").name

    def run(self, slot: int, size_bytes: int) -> int:
        """Send data through a slot, and count what comes back."""
        core = self._driver.open(DEVICE, slot, {})
        data = memoryview(bytearray(b"secret" * size_bytes)[:size_bytes])
        room = bytearray(core.max_output_bytes(size_bytes))
        count = core.process(data, memoryview(room), 0)
        return count + core.finish(memoryview(room))

    def scrub(self, slot: int) -> None:
        """Remove the data of a session."""
        self._driver.scrub(DEVICE, slot)


def _outcome(step: Callable[..., Any], arguments: list[Any]) -> Any:
    try:
        return step(*arguments)
    except exceptions.CodedError as error:
        return {"code": error.code, "message": error.message}


def main() -> None:
    """Do what the argument says."""
    order = json.loads(sys.argv[1])
    steps = _Steps(order["settings"])
    outcomes = [
        _outcome(getattr(steps, name), arguments)
        for name, *arguments in order["steps"]
    ]
    sys.stdout.write(f"\n{MARK}{json.dumps(outcomes)}\n")


if __name__ == "__main__":
    main()
