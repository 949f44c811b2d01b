# SPDX-License-Identifier: Apache-2.0

"""Programs that reach the pool through its REST API, as those in a VM do."""

import json
import os
import pathlib
import re
import subprocess
import threading

import pytest

from fpgapool import client
from fpgapool.cmd import run
from tests.functional.allinone import harness
from tests.harness import programs

KEY, IV = programs.KEY, programs.IV
DATA = bytes(range(256)) * 20_000


def encrypt(site: harness.Site, **options: object) -> client.RunReport:
    """Encrypt through the API, check the output, and return the report."""
    output, report = client.run_buffer(
        "aes",
        DATA,
        params={"key": KEY, "iv": IV},
        front_door=site.api,
        timeout_s=harness.LIMIT_S,
        **options,
    )
    assert output == programs.encrypted(DATA)
    return report


def test_data_go_straight_to_the_worker(site: harness.Site) -> None:
    """A session that the API opened is used like any other."""
    report = encrypt(site, checksum=True)
    # A tenant sees a hash of the host's name.
    assert re.fullmatch("host-[0-9a-f]{8}", report.host)
    assert not report.local


def test_command(site: harness.Site, tmp_path: pathlib.Path) -> None:
    """``fpgapool-run --api-url`` does the same with a file."""
    (tmp_path / "key.hex").write_text(KEY.hex())
    (tmp_path / "data").write_bytes(DATA)
    done = subprocess.run(
        harness.command(
            "run",
            *("aes", "--key-file", "key.hex", "--iv", IV.hex(), "--json"),
            *("--in", "data", "--out", "data.enc", "--api-url", site.url),
        ),
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=harness.LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["local"] is False
    assert (tmp_path / "data.enc").read_bytes() == programs.encrypted(DATA)


def test_list(site: harness.Site, capsys: pytest.CaptureFixture[str]) -> None:
    """``fpgapool-run --list`` asks the API."""
    assert run.main(["--list", "--json", "--api-url", site.url]) == 0
    found = {
        one["name"]: one
        for one in json.loads(capsys.readouterr().out)["accelerators"]
    }
    assert found["aes"]["params_schema"]["required"] == ["key", "iv"]
    assert found["sha"]["slots"] == 2


def test_waiting_and_giving_up(site: harness.Site) -> None:
    """Who waits hears of it, and can be woken; nothing is left behind."""
    holders = [
        client.acc_open("copy", 100, front_door=site.api) for _ in range(2)
    ]
    queued = threading.Event()
    token = client.CancelToken()
    outcome: list[Exception] = []

    def on_state(view: client.SessionView) -> None:
        if view.state == "QUEUED" and view.queue_position == 0:
            queued.set()

    def wait() -> None:
        try:
            client.acc_open(
                "copy",
                100,
                front_door=site.api,
                cancel=token,
                on_state=on_state,
            )
        except client.FpgapoolError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert queued.wait(harness.LIMIT_S)
    token.cancel()
    thread.join(harness.LIMIT_S)
    assert [error.code for error in outcome] == ["CANCELLED"]
    summary = harness.ask_pool(site.pool.front_door())
    assert summary["waiting"] == 0
    for session in holders:
        client.acc_close(session)


def test_no_slot_in_time(site: harness.Site) -> None:
    """The pool's answer is the same error as through a host's front door."""
    holders = [
        client.acc_open("copy", 100, front_door=site.api) for _ in range(2)
    ]
    with pytest.raises(client.WaitTimeout):
        client.acc_open("copy", 1, front_door=site.api, wait_timeout_s=0.2)
    with pytest.raises(client.OperationTimeout):
        client.acc_open("copy", 1, front_door=site.api, timeout_s=0.3)
    for session in holders:
        client.acc_close(session)


@pytest.mark.parametrize(
    ("accelerator", "params", "code"),
    [
        ("nosuch", {}, "UNKNOWN_ACCELERATOR"),
        ("a/../b?c=d#e", {}, "UNKNOWN_ACCELERATOR"),
        ("aes", {"key": "short"}, "INVALID_PARAMS"),
    ],
)
def test_refusals(
    site: harness.Site, accelerator: str, params: dict[str, str], code: str
) -> None:
    """What is wrong is said with the same codes."""
    with pytest.raises(client.FpgapoolError) as caught:
        client.acc_open(
            accelerator, 1, params=params, front_door=site.api, timeout_s=30
        )
    assert caught.value.code == code


def test_unknown_accelerator_without_asking_first(site: harness.Site) -> None:
    """The conductor refuses what the client did not look up."""
    with pytest.raises(client.RequestRejected) as caught:
        client.acc_open("nosuch", 1, verify=False, front_door=site.api)
    assert caught.value.code == "UNKNOWN_ACCELERATOR"


def test_no_api() -> None:
    """Where nobody listens, there is a clear error, and a fallback."""
    api = client.PoolApi.at("http://127.0.0.1:1")
    with pytest.raises(client.FrontDoorUnavailable):
        client.acc_open("copy", 1, front_door=api)
    output, report = client.run_buffer(
        "copy", b"abc", front_door=api, fallback="cpu"
    )
    assert (output, report.fallback_reason) == (
        b"abc",
        "FRONT_DOOR_UNAVAILABLE",
    )


def test_lost_slot_is_replaced_through_the_api(site: harness.Site) -> None:
    """A worker dies; the session goes on in the other slot by itself."""
    with client.acc_open("copy", 100, front_door=site.api) as session:
        session.pin[:3] = b"abc"
        assert bytes(client.acc_run(session, 3)) == b"abc"
        lost = session.slot
        directory = site.pool.run_dir / "state" / "node1" / "workers"
        control = directory / f"board0.{lost}.sock"
        workers = harness.Processes(control)
        assert len(workers) == 1
        # The next worker of that slot cannot listen there, and so cannot be
        # ready before the session has found the other slot.
        control.unlink()
        control.mkdir()
        workers.kill()
        session.pin[:3] = b"def"
        assert bytes(client.acc_run(session, 3)) == b"def"
        assert (session.slot, session.reopens) == (1 - lost, 1)
        control.rmdir()
