# SPDX-License-Identifier: Apache-2.0

"""Workers whose slot is a device of PoCL."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib

import yaml

from fpgapool.drivers.opencl.contents import package
from tests.functional.worker import harness
from tests.harness import pocl
from tests.harness import waiting

DRIVER = "fpgapool.drivers.opencl.driver:OpenCLDriver"


def settings(
    directory: pathlib.Path, binaries: pathlib.Path, **board: object
) -> dict[str, object]:
    """Return the settings of a worker.

    :param directory: of the worker, with its board file.
    :param binaries: where workers of other tests keep theirs, too.
    :param board: more members of the board file.
    """
    directory.mkdir(exist_ok=True)
    entry = {"name": "board0", "platform": f"{pocl.PLATFORM}*", **board}
    boards_file = directory / "opencl.yaml"
    boards_file.write_text(yaml.safe_dump({"boards": [entry]}))
    (directory / "opencl").mkdir(exist_ok=True)
    link = directory / "opencl" / "binaries"
    if not link.exists():
        link.symlink_to(binaries)
    return {
        "driver": DRIVER,
        "driver_settings": {"boards_file": str(boards_file)},
    }


def program(
    directory: pathlib.Path, source: str, **variant: object
) -> dict[str, object]:
    """Make a bitstream of OpenCL C.

    :param source: has the kernel ``run``.
    :param variant: members of its manifest's variant.
    :returns: members of an order to program it.
    """
    step = {
        "kernel": "run",
        "global": [1],
        "local": [1],
        "arguments": ["input", "output", {"ulong": "bytes"}],
    }
    document = {
        "format_version": 1,
        "name": "test",
        "params": {
            "size": {"type": "ulong", "maximum": 1 << 32, "default": 1}
        },
        "variants": [
            {
                "block_bytes": 1,
                "process": {"output_bytes": "bytes", "steps": [step]},
                **variant,
            }
        ],
    }
    contents = package.pack(
        "opencl-source", json.dumps(document).encode(), source.encode()
    )
    checksum_sha256 = hashlib.sha256(contents).hexdigest()
    # Where an agent places it.
    path = directory / "own" / f"{checksum_sha256}.package"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(contents)
    return {
        "accelerator": "test",
        "bitstream": f"bitstream:{checksum_sha256}",
        "bitstream_ref": {
            "bitstream_id": "b",
            "checksum_sha256": checksum_sha256,
            "size_bytes": len(contents),
            "format": "opencl-source",
            "path": str(path),
        },
    }


def wait_until_busy(worker: harness.WorkerProcess) -> None:
    """Wait until a worker computes for longer than its own work takes."""
    first_s = _processor_s(worker)
    waiting.wait_until(
        lambda: _processor_s(worker) > first_s + 1,
        "the kernel runs",
    )


def _processor_s(worker: harness.WorkerProcess) -> float:
    status = pathlib.Path(f"/proc/{worker.process.pid}/stat").read_text()
    ticks = status.rpartition(")")[2].split()[11]
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def open_session(
    worker: harness.WorkerProcess,
    agent: harness.AgentEnd,
    generation: int = 1,
    params: object = None,
    **order: object,
) -> harness.Client:
    """Assign the slot and connect as the client."""
    prepared = agent.prepare(generation, **order)
    client = harness.Client.local(worker)
    return client.hello(prepared, transport="shm", params=params or {})
