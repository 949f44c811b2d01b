# SPDX-License-Identifier: Apache-2.0

"""What fpgapool-manage and fpgapool-status write beside their answers."""

from __future__ import annotations

import datetime
import json
import logging

import pytest

from fpgapool.cmd import manage
from fpgapool.cmd import status


@pytest.fixture
def run(tmp_path, capsys):
    """Give a function that runs a command, and returns its lines."""
    path = tmp_path / "fpgapool.conf"
    path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")

    def run_(*argv: str) -> tuple[int, list[dict]]:
        status = manage.main(["--config-file", str(path), *argv])
        output = capsys.readouterr()
        # Programs read this one.
        assert "fpgapool.audit" not in output.out
        lines = [
            json.loads(line[line.index("{") :])
            for line in output.err.splitlines()
            if " INFO fpgapool.audit " in line
        ]
        return status, lines

    return run_


def test_what_changes_something_leaves_a_line(run, monkeypatch) -> None:
    monkeypatch.setenv("SUDO_USER", "eve")
    status, (line,) = run("db", "sync")
    assert status == 0
    assert datetime.datetime.fromisoformat(line.pop("time")).tzinfo
    assert line == {
        "action": "fpgapool-manage db sync",
        "outcome": "done",
        "user": "eve",
        "target": {},
    }
    _, (line,) = run("db", "purge", "--older-than-days", "30")
    assert line["target"] == {"older_than_days": 30.0}
    _, (line,) = run("accelerator", "load", "--builtin")
    assert line["action"] == "fpgapool-manage accelerator load"
    assert line["target"] == {"builtin": True}


def test_what_only_looks_leaves_none(run) -> None:
    run("db", "sync")
    for command in ("version", "check"):
        assert run("db", command) == (0, [])


def test_what_fails_leaves_a_line(run, tmp_path) -> None:
    run("db", "sync")
    missing = str(tmp_path / "missing.yaml")
    status, (line,) = run("accelerator", "load", missing)
    assert status == 2
    assert line["outcome"] == "failed"
    assert line["code"]
    assert line["target"] == {"file": missing}


#: What DevStack writes, and what oslo.log answers on standard output with.
LOUD = ["debug = true", "debug = true\nuse_stderr = false"]


@pytest.fixture(params=LOUD, ids=["stderr", "stdout"])
def loud(request, tmp_path) -> str:
    """Give a configuration that asks for lines of all levels."""
    path = tmp_path / "loud.conf"
    path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n{request.param}\n")
    return str(path)


@pytest.mark.parametrize(
    ("main", "command"),
    [(manage.main, "db version"), (status.main, "upgrade check --json")],
)
def test_answers_are_not_mixed_with_lines_for_debugging(
    loud, capsys, main, command
) -> None:
    manage.main(["--config-file", loud, "db", "sync"])
    capsys.readouterr()
    main(["--config-file", loud, *command.split()])
    logging.getLogger("fpgapool.test").debug("nothing")
    logging.getLogger("fpgapool.test").warning("disk is full")
    output = capsys.readouterr()
    assert " DEBUG " not in output.err + output.out
    # What matters is told, where it is in nobody's way.
    assert "disk is full" in output.err
    assert "disk is full" not in output.out


def test_the_command_line_can_ask_for_lines_for_debugging(
    tmp_path, capsys
) -> None:
    path = tmp_path / "plain.conf"
    path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    manage.main(["--debug", "--config-file", str(path), "db", "sync"])
    logging.getLogger("fpgapool.test").debug("here")
    output = capsys.readouterr()
    assert " DEBUG fpgapool.test " in output.err
    assert " DEBUG " not in output.out
