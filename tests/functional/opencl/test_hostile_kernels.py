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

#: One work item runs ``run``: with the secret of another session before, if
#: the program has a second argument.
WORKER = """
import json, sys
from fpgapool.drivers.opencl import manifest, runner
from tests.harness import pocl

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
    return runner.Program(device, parsed, source.encode())

def session(program, data):
    made = runner.Runner(program, {}, len(data))
    output = bytearray(len(data))
    print("begins", flush=True)
    made.process(memoryview(data), memoryview(output), 0)
    made.clear()
    return output

device = pocl.device()
COPY = (
    "kernel void run(global const uchar *in, global uchar *out, ulong n)"
    "{ for (ulong i = 0; i < n; i++) out[i] = in[i]; }"
)
if sys.argv[2:]:
    data = bytearray(SECRET * 4096)
    output = session(build(COPY), data)
    assert output == data
    # A worker's shared memory is overwritten as well.
    data[:] = output[:] = bytes(len(data))
output = session(build(sys.argv[1]), bytearray(1 << 20))
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
    return (status, lines[-1]) == (0, f"secrets 0 of {1 << 20}")


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
AROUND = "{ for (ulong i = 0; i < n; i++) out[i] = in[0 %s i]; }"


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
    workers = [
        start(tmp_path, AROUND % step, "after a secret") for step in "+-"
    ]
    for status, lines in map(outcome, workers):
        assert lines[:2] == ["begins", "begins"]
        # Or it ended where its process has no memory.
        assert (
            status == -signal.SIGSEGV or lines[2] == f"secrets 0 of {1 << 20}"
        )
