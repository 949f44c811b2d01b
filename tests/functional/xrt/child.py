# SPDX-License-Identifier: Apache-2.0

"""Uses a board through the vendor's runtime, in a process of its own.

The first argument is what to do, as JSON; the last line of the output is the
outcome. The runtime writes to the output, too.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

from fpgapool.drivers.opencl import manifest
from fpgapool.vocabulary import exceptions
from tests.functional.xrt import images
from tests.harness import xrt

MARK = "outcome: "


def run(order: dict[str, Any]) -> dict[str, Any]:
    """Load an xclbin and run its kernel.

    :param order: ``image``, the path of the xclbin; ``kernel`` and ``step``
        of the manifest; ``size_bytes`` of the input; ``instance`` of the slot.
    """
    from fpgapool.drivers.opencl import runner

    device = next(
        device
        for platform in runner.cl.get_platforms()
        if platform.name == xrt.PLATFORM
        for device in platform.get_devices()
    )
    document = images.manifest(order["kernel"], **order["step"])
    program = runner.Program(
        device,
        manifest.parse(document),
        pathlib.Path(order["image"]).read_bytes(),
        is_source=False,
        instance=order["instance"],
    )
    size_bytes = order["size_bytes"]
    used = runner.Runner(program, {}, size_bytes)
    data = bytearray(b"secret" * size_bytes)[:size_bytes]
    room = bytearray(used.max_output_bytes(size_bytes))
    count = used.process(memoryview(data), memoryview(room), 0)
    used.clear()
    return {"output_bytes": count, "unified": used.uses_memory_of_caller}


def main() -> None:
    """Do what the argument says."""
    try:
        outcome = run(json.loads(sys.argv[1]))
    except exceptions.CodedError as error:
        outcome = {"code": error.code, "message": error.message}
    sys.stdout.write(f"\n{MARK}{json.dumps(outcome)}\n")


if __name__ == "__main__":
    main()
