# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-manage device``: what it tells of sound and of faulty boards."""

import fcntl
import json
import socket

import pytest
import yaml

from fpgapool.accelerators import base as accelerators
from fpgapool.agent import service
from fpgapool.agent.supervision import workers
from fpgapool.cmd import manage
from fpgapool.cmd.managing import trials
from fpgapool.drivers import base
from fpgapool.drivers import loader

BOARDS = """
unlimited: true
boards:
- {name: board0, shape: medium, slots: 2, idle_power_w: 20, active_power_w: 5}
- {name: board1, shape: small, slots: 1}
"""


@pytest.fixture
def run(tmp_path, capfd, monkeypatch):
    """Give a function that runs a command, and returns its outcome."""
    (tmp_path / "boards.yaml").write_text(BOARDS)
    conf = tmp_path / "fpgapool.conf"
    conf.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}/state\n[agent]\n"
        "driver = emulator\nchunk_bytes = 262144\n"
        f"[emulator]\nboards_file = {tmp_path}/boards.yaml\n"
    )

    def run_(*argv, driver=None):
        with monkeypatch.context() as patch:
            if driver is not None:
                path = f"tests.unit.cmd.trial_drivers:{driver}"
                patch.setattr(loader, "driver_path", lambda _: path)
            code = manage.main(["--config-file", str(conf), "device", *argv])
        output = capfd.readouterr()
        return code, output.out, output.err

    return run_


def checked(run, *argv, driver):
    """Check a board, and return the outcomes of its steps."""
    code, output, _ = run("check", "-f", "json", *argv, driver=driver)
    found = json.loads(output)
    assert found["passed"] == (code == 0)
    (device,) = found["devices"]
    return code, {
        (step["accelerator"], step["name"]): step for step in device["steps"]
    }


def test_all_accelerators_of_emulated_boards(run):
    code, output, _ = run("check", "--size-mib", "0.5", "-f", "json")
    found = json.loads(output)
    assert (code, found["passed"]) == (0, True)
    assert [
        (device["name"], device["shapes"]) for device in found["devices"]
    ] == [("board0", ["medium"]), ("board1", ["small"])]
    for device in found["devices"]:
        outcomes = {
            (step["accelerator"], step["name"]): step["outcome"]
            for step in device["steps"]
        }
        assert set(outcomes.values()) == {"passed"}
        for name in accelerators.profile_names():
            for step in ("program", "open", "self-test", "result", "scrub"):
                assert (name, step) in outcomes
        assert {(None, "found"), (None, "sensors"), (None, "transfer")} <= set(
            outcomes
        )


def test_the_table_has_a_line_for_each_step(run):
    code, output, _ = run(
        *("check", "--device", "board1", "--accelerator", "aes"),
        *("--size-mib", "0.5"),
    )
    lines = [line.split(maxsplit=3) for line in output.splitlines()]
    assert code == 0
    assert [line[:2] for line in lines] == [["board1", "passed"]] * 9
    assert lines[0][2:] == [
        "found",
        "emulated, shape small; slots 1; 2100 MB/s",
    ]
    assert [line[2] for line in lines[4:]] == ["aes"] * 5
    assert "MB/s" in lines[7][3]


def test_a_line_says_what_the_worker_of_a_slot_can_reach(run):
    _, found = checked(
        run, "--device", "board1", "--accelerator", "aes", driver=None
    )
    detail = found[None, "reach"]["detail"]
    assert detail.startswith("slot 0: reads /")
    # Its boards file is among others.
    assert detail.endswith(
        "; writes nothing; uses devices nothing; a helper does the rest"
    )


def test_what_is_missing_is_not_in_reach(tmp_path):
    (tmp_path / "node0").touch()
    needs = base.Needs(
        readable=("/nonexistent",),
        writable=(str(tmp_path),),
        devices=(f"{tmp_path}/node*",),
        calls=("mlock",),
    )
    assert list(trials.reach(needs, has_helper=False)) == [
        "reads nothing",
        f"writes {tmp_path}",
        f"uses devices {tmp_path}/node0",
        "makes the system calls mlock",
        "has no helper",
    ]


def test_measured_rates_are_written(run, tmp_path):
    table, profiles = tmp_path / "platforms.yaml", tmp_path / "profiles"
    code, output, _ = run(
        *("measure", "--seconds", "0.3", "-f", "json"),
        *("--accelerator", "copy", "--accelerator", "sha"),
        *("--output", str(table), "--profiles", str(profiles)),
    )
    written = yaml.safe_load(table.read_text())
    assert (code, json.loads(output)) == (0, written)
    assert set(written["platforms"]) == {"medium", "small"}
    found = written["platforms"]["medium"]["accelerators"]
    assert set(found) == {"copy", "sha"}
    assert found["copy"]["return_ratio"] == 1
    assert found["sha"]["return_ratio"] == 0
    assert found["copy"]["idle_w"] == 20
    assert found["copy"]["active_w"] >= 20
    for name in ("copy", "sha"):
        profile = accelerators.read_profile(profiles / f"{name}.yaml")
        rates = {
            shape["accelerators"][name]["peak_bytes_per_s"]
            for shape in written["platforms"].values()
        }
        assert profile.peak_bytes_per_s == max(rates)
        assert profile.core == name
        for shape, there in written["platforms"].items():
            one = there["accelerators"][name]
            assert profile.platforms[shape] == {
                "peak_bytes_per_s": one["peak_bytes_per_s"],
                "active_w": max(one["active_w"] - one["idle_w"], 0),
            }


def test_an_accelerator_that_a_board_lacks(run):
    code, steps = checked(
        run, "--accelerator", "sobel", "--accelerator", "copy", driver="Sound"
    )
    assert code == 0
    assert steps["sobel", "program"]["outcome"] == "absent"
    assert steps["copy", "scrub"]["outcome"] == "passed"
    assert steps[None, "sensors"]["values"] == {"power_w": 12.5}


def test_a_file_that_a_driver_refuses(run, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"bitstream")
    code, output, _ = run(
        *("check", "-f", "json", "--device", "board1"),
        *("--file", f"copy={path}"),
    )
    steps = json.loads(output)["devices"][0]["steps"]
    assert (code, steps[-1]["outcome"]) == (1, "failed")
    assert steps[-1]["detail"].startswith("BITSTREAM_UNKNOWN: ")
    # It is no package, though it begins as one.
    path.write_bytes(b"FPGAPKG1")
    code, _, error = run("check", "--file", f"copy={path}")
    assert (code, "INVALID_PACKAGE" in error) == (2, True)


def test_faults_of_a_board(run):
    code, steps = checked(run, "--accelerator", "copy", driver="Sick")
    assert code == 1
    failed = {
        key: step["detail"]
        for key, step in steps.items()
        if step["outcome"] == "failed"
    }
    assert failed == {
        (None, "health"): "too hot",
        (None, "sensors"): "OSError: no sensor",
        ("copy", "scrub"): "SCRUB_FAILED: it does not answer",
    }


def test_a_wrong_result(run):
    code, steps = checked(run, "--accelerator", "copy", driver="Wrong")
    assert code == 1
    assert steps["copy", "self-test"]["outcome"] == "passed"
    assert steps["copy", "result"]["outcome"] == "failed"
    assert "byte 1000" in steps["copy", "result"]["detail"]
    # It is tried in any case.
    assert steps["copy", "scrub"]["outcome"] == "passed"


@pytest.mark.parametrize(
    ("driver", "step", "detail"),
    [
        ("Hanging", "open", "did not finish within 3 s"),
        ("Crashing", "program", "the process ended with SIGSEGV"),
    ],
)
def test_a_driver_that_hangs_or_crashes(run, driver, step, detail):
    code, steps = checked(
        run, "--accelerator", "copy", "--timeout-s", "3", driver=driver
    )
    assert code == 1
    assert steps["copy", step]["outcome"] == "failed"
    assert steps["copy", step]["detail"] == detail


def test_a_host_without_boards(run):
    code, output, _ = run("check", driver="Empty")
    assert (code, output) == (1, "The driver found no device.\n")


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        ("Refusing", "no runtime"),
        ("Gone", "SIGABRT"),
        ("Missing", "cannot load"),
    ],
)
def test_a_driver_that_finds_nothing(run, driver, reason):
    code, output, error = run("check", driver=driver)
    assert (code, output) == (2, "")
    assert reason in error


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("--device", "board9"), "devices of this host: board0, board1"),
        (("--size-mib", "0"), "--size-mib"),
        (("--timeout-s", "nan"), "--timeout-s"),
        (("--file", "copy"), "--file"),
        (("--file", "copy=/nonexistent"), "/nonexistent: No such file"),
    ],
)
def test_wrong_arguments(run, argv, reason):
    try:
        code, output, error = run("check", *argv)
    except SystemExit as exit_:
        code = exit_.code
        output, error = "", "--size-mib --timeout-s --file"
    assert (code, output) == (2, "")
    assert reason in error


def test_an_agent_keeps_its_boards(run, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    with open(state / service.LOCK_NAME, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, output, error = run("check")
    assert (code, output) == (2, "")
    assert "agent is running" in error
    # Nothing was programmed.
    assert not (state / "emulator").exists()


def test_workers_that_outlive_their_agent_keep_theirs(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(workers, "IDLE_TIMEOUT_S", 0.01)
    path = tmp_path / "state" / "workers"
    path.mkdir(parents=True)
    control = workers.control_path(str(tmp_path / "state"), ("board0", 1))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(control)
        server.listen()
        code, _, error = run("check")
        assert code == 2
        assert "the worker at board0.1.sock does not respond" in error
    # It has ended, and left its socket.
    code, _, _ = run(
        *("check", "--accelerator", "copy", "--size-mib", "0.5"),
    )
    assert code == 0
