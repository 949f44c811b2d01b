# SPDX-License-Identifier: Apache-2.0

"""Kernels that mean harm, each in a process like a worker's.

On a processor they are native code: what they can destroy is their process,
and what they must not find is what the session before has left in memory of
the device.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import typing

import pytest

from tests.harness import pocl

SIZE = 1 << 20
#: One work item runs ``run``: with the secret of another session before, if
#: the program has a second argument: ``kept`` if its memory is.
WORKER = """
import json, sys
from fpgapool.drivers.opencl import runner
from fpgapool.drivers.opencl.contents import manifest
from tests.harness import pocl

SIZE = 1 << 20
kept = []
SECRET = b"a secret of the session before.."

def build(source):
    step = {
        "kernel": "run", "global": [1], "local": [1],
        "arguments": ["input", "output", {"ulong": "bytes"}],
    }
    phase = {"output_bytes": "bytes", "steps": [step]}
    document = {
        "format_version": 1, "name": "hostile",
        "variants": [{"block_bytes": 1, "process": phase}],
    }
    parsed = manifest.parse(json.dumps(document).encode())
    binary = pocl.binary(device, source.encode())
    return runner.programs.Program(device, parsed, binary)

def session(program, data):
    made = runner.Runner(program, {}, len(data))
    output = bytearray(len(data))
    print("begins", flush=True)
    made.process(memoryview(data), memoryview(output), 0)
    if sys.argv[2:] == ["kept"]:
        kept.append(made)
    else:
        made.clear()
    return output

device = pocl.device()
COPY = (
    "kernel void run(global const uchar *in, global uchar *out, ulong n)"
    "{ for (ulong i = 0; i < n; i++) out[i] = in[i]; }"
)
if sys.argv[2:]:
    data = bytearray(SECRET * (1 << 17))
    output = session(build(COPY), data)
    assert output == data
    # A worker's shared memory is overwritten as well.
    data[:] = output[:] = bytes(len(data))
output = session(build(sys.argv[1]), bytearray(SIZE))
print("secrets", output.count(SECRET[4:20]), "of", len(output))
"""
FRONT = "kernel void run(global const uchar *in, global uchar *out, ulong n) "


def start(
    directory: pathlib.Path, source: str, *more: str
) -> subprocess.Popen[str]:
    """Start a worker."""
    root = pathlib.Path(__file__).parents[3]
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, FRONT + source, *more],
        env={
            **os.environ,
            **pocl.environment(directory),
            # All memory is side by side, and stays mapped when it is freed.
            "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
            "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
            "MALLOC_TOP_PAD_": str(1 << 26),
            "PYTHONPATH": os.pathsep.join([str(root), *sys.path]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Return status and lines of a worker that ends."""
    printed, _ = process.communicate(timeout=120)
    return process.returncode, printed.splitlines()


def is_usable(directory: pathlib.Path) -> bool:
    """Whether the device serves the next worker."""
    copies = "{ for (ulong i = 0; i < n; i++) out[i] = in[i]; }"
    status, lines = outcome(start(directory, copies))
    return (status, lines[-1]) == (0, f"secrets 0 of {SIZE}")


BREAKING = {
    "reads far outside": """{
        for (ulong i = 0; i < n; i++) out[i] = in[i + (1ul << 44)];
    }""",
    "writes far outside": """{
        for (ulong i = 0; i < n; i++) out[i + (1ul << 44)] = 1;
    }""",
    "eats memory": """{
        volatile uchar own[1 << 28];
        for (ulong i = 0; i < (1 << 28); i += 4096) own[i] = in[0];
        out[0] = own[n];
    }""",
}
ENDLESS = "{ volatile global uchar *a = out; while (!a[0]) { } }"
#: 64 KiB of each of the 16 MiB around the input.
AROUND = """{
    for (ulong i = 0; i < n; i++)
        out[i] = in[(i & 0xffff) + n * (i >> 16) - 8 * n];
}"""


@pytest.mark.security
def test_what_breaks_or_blocks_its_process(tmp_path: pathlib.Path) -> None:
    """And nothing else: the device serves others afterwards."""
    breaking = {
        name: start(tmp_path, source) for name, source in BREAKING.items()
    }
    outcomes = {name: outcome(each) for name, each in breaking.items()}
    died = (-signal.SIGSEGV, ["begins"])
    assert outcomes == dict.fromkeys(BREAKING, died)
    endless = start(tmp_path, ENDLESS)
    assert typing.cast(typing.IO[str], endless.stdout).readline()
    endless.kill()
    assert outcome(endless) == (-signal.SIGKILL, [])
    assert is_usable(tmp_path)


@pytest.mark.security
def test_around_its_buffers_are_no_secrets(tmp_path: pathlib.Path) -> None:
    """Memory of the device that the session before had was overwritten."""
    cleared, kept = (
        outcome(start(tmp_path, AROUND, what)) for what in ("cleared", "kept")
    )
    assert cleared == (0, ["begins", "begins", f"secrets 0 of {SIZE}"])
    # It looks in the right places.
    status, (*_, found) = kept
    assert (status, found.startswith("secrets 0 ")) == (0, False)
