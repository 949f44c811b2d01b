#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The lines of fpgapool-manage in the audit log."""

from __future__ import annotations

import json

import pytest

from fpgapool.cmd import manage


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
