# SPDX-License-Identifier: Apache-2.0

"""fpgapool-manage bitstream build registers in a pool of real processes."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from fpgapool.drivers.opencl.contents import package
from tests.harness import cloud as clouds
from tests.harness import pocl
from tests.harness import processes
from tests.harness import waiting
from tests.unit.bitstreams import samples

PLATFORM = f"--platform={pocl.PLATFORM}"


# In the gate: tests/unit/cmd/test_building.py and
# tests/functional/opencl/test_build.py.
@pytest.mark.long
def test_it_is_in_the_library_of_a_running_pool(
    make_cloud: Callable[..., clouds.Cloud], directory: pathlib.Path
) -> None:
    """With its file, signed and approved."""
    signer = samples.Signer(directory / "keys")
    signer.trust()
    key = directory / "private"
    key.write_bytes(signer.private_pem)
    store = directory / "store"
    pool = make_cloud(
        clouds.HostPlan("board", slots=1),
        options={
            "bitstreams": {
                "store_dir": str(store),
                "trusted_keys_dir": str(signer.directory),
                "signature_required": False,
            }
        },
    )

    def build(*argv: str) -> tuple[int, str]:
        done = subprocess.run(
            [
                sys.executable,
                *("-W", "ignore", "-m", "fpgapool.cmd.manage"),
                *("--config-file", str(pool.conductor.config_path)),
                *("bitstream", "build", "--kernel=copy", PLATFORM),
                *("--shape=medium", "--project=p1", "--public"),
                *argv,
            ],
            env=pool.conductor.environment(),
            cwd=processes.ROOT,
            capture_output=True,
            text=True,
            timeout=waiting.COMMAND_LIMIT_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    status, printed = build("--approve", f"--key={key}")
    assert (status, "opencl-binary of copy" in printed) == (0, True), printed
    (row,) = pool.database.bitstreams()
    assert (row.state, row.signed_by) == ("approved", "release")
    (path,) = (path for path in store.rglob("*") if path.is_file())
    assert samples.sha256(path.read_bytes()) == row.checksum_sha256
    assert package.unpack(path.read_bytes()).kind == "opencl-binary"
    # The conductor relies on no one's word.
    key.write_bytes(samples.Signer(directory).private_pem)
    status, printed = build("--approve", f"--key={key}")
    assert (status, "no trusted key" in printed) == (1, True), printed
    assert [one.bitstream_id for one in pool.database.bitstreams()] == [
        row.bitstream_id
    ]
