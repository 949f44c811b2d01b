# SPDX-License-Identifier: Apache-2.0

"""Tests of the kernel; run them with pytest.

They need an OpenCL device, such as that of Debian's package pocl-opencl-icd.
"""

import json
import pathlib
import subprocess
import sys

import skeleton

HERE = pathlib.Path(__file__).parent


def test_the_reference_gives_the_vectors():
    vectors = json.loads((HERE / "skeleton.vectors.json").read_text())
    for vector in vectors:
        data = bytes.fromhex(vector["input"])
        output = skeleton.reference(data, vector["params"])
        assert output.hex() == vector["output"]


def test_the_kernel_works_in_a_pool():
    command = [sys.executable, "-m", "fpgapool.cmd.dev", "try"]
    done = subprocess.run(
        [*command, "skeleton.cl", "--size-mib=1"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
