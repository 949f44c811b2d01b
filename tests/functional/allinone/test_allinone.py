# SPDX-License-Identifier: Apache-2.0

"""A whole pool by one command, and nothing left of it."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import urllib.request

import pytest

from fpgapool import client
from tests.functional.allinone import encrypting
from tests.functional.allinone import harness
from tests.harness import cases
from tests.harness import waiting


@pytest.mark.parametrize(
    ("door", "local"),
    [("node1", True), ("node2", False), ("front-door", True)],
)
def test_every_host_reaches_the_boards(
    pool: harness.Pool, door: str, local: bool
) -> None:
    """Data is encrypted for hosts with and without boards."""
    report = encrypting.encrypt(pool.front_door(door))
    assert (report.host, report.local) == ("node1", local)


def _processes(run_dir: pathlib.Path) -> harness.Processes:
    """Return the pool, a fork server, two workers and a spare one."""
    waiting.wait_until(
        lambda: len(harness.Processes(run_dir)) == 5,
        "a spare worker",
        harness.LIMIT_S,
    )
    return harness.Processes(run_dir)


@pytest.mark.parametrize("number", cases.first(signal.SIGTERM, signal.SIGHUP))
def test_signal_ends_everything(number: signal.Signals) -> None:
    """Told to end, or without a terminal, it leaves nothing."""
    with harness.running_pool() as pool:
        encrypting.encrypt(pool.front_door())
        processes = _processes(pool.run_dir)
        pool.process.send_signal(number)
        output = pool.read_output()
        assert pool.process.returncode == 0, output
        processes.wait_for_end()
        assert os.listdir(pool.run_dir) == ["allinone.lock"]
        assert "ready: 2 hosts, 1 board, 2 slots" in output


def test_killed_one_takes_its_workers_along() -> None:
    """After SIGKILL workers end by themselves and a new pool can start."""
    with harness.short_directory() as run_dir:
        with harness.running_pool(*harness.SMALL, run_dir=run_dir) as pool:
            processes = _processes(run_dir)
            pool.process.kill()
            processes.wait_for_end()
        with harness.running_pool(*harness.SMALL, run_dir=run_dir) as pool:
            encrypting.encrypt(pool.front_door("node2"))
        assert os.listdir(run_dir) == ["allinone.lock"]


def test_a_driver_that_cannot_work_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Instead of a pool that is ready and fails each session."""
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "--no-such-flag")
    with harness.short_directory() as run_dir:
        with harness.Pool(
            run_dir, "--hosts=1", "--boards=1", "--slots=1", "--driver=opencl"
        ) as pool:
            output = pool.read_output()
            assert pool.process.returncode == 1
            cause = "board0: KERNEL_BUILD_FAILED: Invalid build option"
            assert f"no usable boards: {cause}" in output
            assert "ready" not in output


@pytest.mark.long
def test_ends_with_the_program_that_started_it() -> None:
    """The pool ends when the other end of its pipe is closed."""
    with harness.running_pool() as pool:
        processes = harness.Processes(pool.run_dir)
        pool.ready.close()
        processes.wait_for_end()
        pool.read_output()
        assert pool.process.returncode == 0


def test_configuration_tunes_but_cannot_rewire(
    tmp_path: pathlib.Path,
) -> None:
    """Options of a real cloud's file do not lead into that cloud."""
    config = tmp_path / "cloud.conf"
    config.write_text(
        "[DEFAULT]\n"
        "transport_url = rabbit://nobody@203.0.113.1/\n"
        "state_path = /nonexistent\n"
        "[database]\n"
        "connection = sqlite:////nonexistent/cloud.sqlite\n"
        "[conductor]\n"
        "strategy = sjf\n"
    )
    options = (*harness.SMALL, "--config-file", str(config))
    with harness.running_pool(*options) as pool:
        assert harness.ask_pool(pool.front_door())["strategy"] == "sjf"


@pytest.mark.parametrize(
    ("options", "text"),
    cases.some(
        [
            (["--hosts=0"], "hosts"),
            (["--boards=0"], "board"),
            (["--boards=99", "--slots=99"], "slots"),
            (["--rate-scale=0"], "rate scale"),
            (["--rate-scale=nan"], "rate scale"),
            (["--strategy=none-such"], "wra"),
            (["--config-file=/nonexistent.conf"], "/nonexistent.conf"),
            (["--state-dir=/proc/fpgapool"], "/proc/fpgapool"),
            ([f"--state-dir=/tmp/{'x' * 80}"], "too long"),
            (["--ready-fd=999"], "--ready-fd 999"),
            (["--api-port=65536"], "not a port number"),
        ],
        lambda case: case[1] == "/nonexistent.conf",
    ),
    ids=lambda value: value[0][:20] if isinstance(value, list) else "",
)
def test_wrong_options_are_explained(options: list[str], text: str) -> None:
    """Whatever is wrong is named, with a code, and nothing is left."""
    result = run(*options)
    assert result.returncode == 2, result.stdout
    assert "INVALID_CONFIGURATION" in result.stdout
    assert text in result.stdout


def test_a_port_that_is_in_use() -> None:
    """It is found before anything starts."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run(*harness.SMALL, f"--api-port={port}")
    assert result.returncode == 2
    assert f"--api-port {port}: cannot listen on port {port}" in result.stdout
    assert "in use; choose another port" in result.stdout
    assert "starting" not in result.stdout


@pytest.mark.parametrize(
    ("option", "told", "model"),
    cases.some(
        [
            ("--rate-scale=0.5", " (rates scaled by 0.5)", "emulated-x0.5"),
            ("--unlimited", " (rates unlimited)", "emulated-unlimited"),
            ("--rate-scale=1", "", "emulated"),
        ],
        lambda case: case[0] == "--rate-scale=0.5",
    ),
)
def test_scaled_rates_are_told_wherever_rates_are(
    option: str, told: str, model: str
) -> None:
    options = ("--hosts=2", "--boards=1", "--slots=1", option, "--api-port=0")
    with harness.short_directory() as run_dir:
        with harness.Pool(run_dir, *options) as pool:
            url = pool.wait_until_ready()["api_url"]
            found = client.accelerators(front_door=pool.front_door())
            (copy,) = (one for one in found if one.name == "copy")
            assert copy.description == f"Returns its input unchanged{told}"
            # The pool knows its boards before its database does.
            (device,) = waiting.wait_until(
                lambda: devices_at(url), "rows of the boards"
            )
            assert device["model"] == model
            browser = urllib.request.Request(
                url, headers={"Accept": "text/html,*/*;q=0.8"}
            )
            with urllib.request.urlopen(browser) as answer:
                assert answer.url == f"{url}/ui/"
            pool.process.send_signal(signal.SIGTERM)
            assert "node2: no boards, front door" in pool.read_output()


def devices_at(url: str) -> "list[dict[str, object]]":
    with urllib.request.urlopen(f"{url}/v1/devices") as answer:
        return json.load(answer)["devices"]


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    """Run a pool that cannot start, and see that nothing is left."""
    with harness.short_directory() as run_dir:
        result = subprocess.run(
            harness.command("allinone", "--run-dir", str(run_dir), *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=harness.LIMIT_S,
        )
        assert set(os.listdir(run_dir)) <= {"allinone.lock"}
    return result
