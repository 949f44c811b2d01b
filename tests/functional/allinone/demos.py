# SPDX-License-Identifier: Apache-2.0

"""The demo as a process."""

import os
import pathlib
import subprocess
import sys


def start_demo(
    temporary: pathlib.Path, out: pathlib.Path, *options: str
) -> subprocess.Popen[str]:
    """Run the demo, its files in a directory of the test."""
    return subprocess.Popen(
        [sys.executable, "-m", "demo", "--out", str(out), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,
    )


def read_until(demo: subprocess.Popen[str], text: str) -> str:
    """Return what the demo has written when a text comes."""
    assert demo.stdout is not None
    output = ""
    while text not in output:
        line = demo.stdout.readline()
        assert line, output
        output += line
    return output
