# SPDX-License-Identifier: Apache-2.0

"""Sessions with deadlines or applications, and dry runs, in a pool of real
processes.
"""

import contextlib
import json
import pathlib
import subprocess

import pytest

from fpgapool import client
from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.harness import waiting


def open_copy(
    front_door: str | client.PoolApi, **options: object
) -> client.Session:
    """Open a session of 1 MB."""
    return client.acc_open(
        "copy",
        size_bytes=10**6,
        front_door=front_door,
        timeout_s=harness.LIMIT_S,
        **options,
    )


def test_a_session_that_holds_its_slot_too_long_ends(
    site: harness.Site, front_door: str | client.PoolApi
) -> None:
    with open_copy(
        front_door, deadline_s=1.0, deadline_action="kill"
    ) as session:
        session.pin[:1000] = bytes(1000)
        assert client.acc_run(session, 1000) == bytes(1000)
        with pytest.raises(client.SessionFailed) as caught:
            use_for_ever(session)
    assert caught.value.code == codes.DEADLINE_PASSED
    # The worker tells the client first, and then the conductor.
    waiting.wait_until(
        lambda: site.shown(session.session_id)["state"] == "EXPIRED",
        "the session has ended with its deadline",
        harness.LIMIT_S,
    )
    assert site.shown(session.session_id)["deadline_met"] is False


def use_for_ever(session: client.Session) -> None:
    while True:
        client.acc_run(session, 1)


def test_a_session_that_ends_in_time_has_met_its_deadline(
    site: harness.Site,
) -> None:
    with open_copy(site.api, deadline_s=600.0) as session:
        before = site.shown(session.session_id)
        assert before["deadline_met"] is None
    waiting.wait_until(
        lambda: site.shown(session.session_id)["deadline_met"] is True,
        "the deadline counts as met",
        harness.LIMIT_S,
    )


def test_what_no_slot_can_do_is_refused(
    site: harness.Site, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(client.RequestRejected) as caught:
        open_copy(site.pool.front_door(), deadline_s=1e-6)
    assert caught.value.code == codes.DEADLINE_IMPOSSIBLE
    (tmp_path / "data").write_bytes(bytes(1000))
    result = subprocess.run(
        harness.command(
            *("run", "copy", "--in", "data", "--out", "out"),
            *("--deadline", "1e-9", "--socket", site.pool.front_door()),
        ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=harness.LIMIT_S,
    )
    assert result.returncode == 1
    assert codes.DEADLINE_IMPOSSIBLE in result.stderr
    assert not (tmp_path / "out").exists()


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


def test_the_command_makes_dry_runs(
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
    done = run("copy", "--group", "g")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["code"] == codes.INVALID_USAGE
    assert "--dry-run cannot be used with --group" in error["message"]
    assert list(tmp_path.iterdir()) == [source]
