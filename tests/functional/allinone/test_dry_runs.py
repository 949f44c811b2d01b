# SPDX-License-Identifier: Apache-2.0

"""Dry runs of sessions, in a pool of real processes."""

import contextlib
import json
import pathlib
import subprocess

import pytest

from fpgapool import client
from fpgapool.vocabulary import codes
from tests.functional.allinone import harness


@pytest.fixture(params=["socket", "api"])
def front_door(
    site: harness.Site, request: pytest.FixtureRequest
) -> str | client.PoolApi:
    """Give both ways into the pool."""
    if request.param == "api":
        return site.api
    return site.pool.front_door()


def ask(
    front_door: str | client.PoolApi, accelerator: str = "copy"
) -> client.DryRun:
    """Ask what would become of a session of 1 MB."""
    return client.acc_dry_run(
        accelerator,
        10**6,
        front_door=front_door,
        timeout_s=harness.LIMIT_S,
    )


def test_a_dry_run_is_what_a_session_then_finds(
    front_door: str | client.PoolApi,
) -> None:
    with contextlib.ExitStack() as stack:
        # Each free slot serves one session.
        for _ in range(100):
            found = ask(front_door)
            if not found.fits:
                break
            session = client.acc_open(
                "copy",
                size_bytes=10**6,
                front_door=front_door,
                timeout_s=harness.LIMIT_S,
            )
            stack.enter_context(session)
        assert found.state == "QUEUED"
        assert found.reasons == (codes.NO_IDLE_SLOT,)
        with pytest.raises(client.WaitTimeout):
            client.acc_open(
                "copy",
                size_bytes=10**6,
                front_door=front_door,
                timeout_s=harness.LIMIT_S,
                wait_timeout_s=0.1,
            )
    found = ask(front_door, "nothing")
    assert found.state == "REJECTED"
    assert found.reasons == (codes.UNKNOWN_ACCELERATOR,)
    assert "nothing" in found.message


def test_the_command_says_it(
    site: harness.Site, tmp_path: pathlib.Path
) -> None:
    source = tmp_path / "in"
    source.write_bytes(bytes(1000))

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            harness.command(
                "run",
                *options,
                *("--in", str(source), "--dry-run", "--json"),
                *("--socket", site.pool.front_door()),
            ),
            capture_output=True,
            text=True,
            check=False,
            timeout=harness.LIMIT_S,
        )

    # The key is not needed yet.
    done = run("aes")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "PREPARING"
    done = run("copy", "--deadline", "1e-9")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["reasons"] == [codes.DEADLINE_IMPOSSIBLE]
    assert "the deadline is" in found["message"]
    assert list(tmp_path.iterdir()) == [source]
