# SPDX-License-Identifier: Apache-2.0

"""Tests of the core; run them with pytest."""

import pathlib
import subprocess
import sys

import skeleton

from fpgapool.accelerators import base


def compute(data, piece_bytes, **params):
    """Return the output for input in pieces of a length."""
    core = skeleton.SkeletonCore(params)
    output = b""
    for start in range(0, len(data), piece_bytes):
        piece = memoryview(data[start : start + piece_bytes])
        room = memoryview(bytearray(core.max_output_bytes(len(piece))))
        output += bytes(room[: core.process(piece, room, start)])
    end = memoryview(bytearray(core.max_output_bytes(0)))
    return output + bytes(end[: core.finish(end)])


def test_known_answers():
    for answer in skeleton.SkeletonCore.known_answers:
        output = compute(answer.data, len(answer.data), **answer.params)
        assert output == answer.output


def test_the_output_does_not_depend_on_the_cuts():
    data = bytes(range(256))
    whole = compute(data, len(data), amount=200)
    for piece_bytes in (1, 3, 100):
        assert compute(data, piece_bytes, amount=200) == whole


def test_wrong_parameters():
    for params in ({}, {"amount": 256}, {"amount": "1"}, {"other": 1}):
        try:
            skeleton.SkeletonCore(params)
        except base.InvalidParams:
            continue
        raise AssertionError(f"it takes {params}")


def test_it_works_in_a_pool():
    command = [sys.executable, "-m", "fpgapool.cmd.dev", "try"]
    done = subprocess.run(
        [*command, "skeleton.py", "--size-mib=1"],
        cwd=pathlib.Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
