# SPDX-License-Identifier: Apache-2.0

"""The command that sets labels, with a stand-in for YARN's."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from fpgapool import client
from fpgapool.cmd import yarn_labels
from fpgapool.vocabulary import codes
from tests.unit.yarn import inventory

YARN = """\
#!/bin/sh
for argument; do echo "$argument"; done >>{record}
echo >>{record}
exit "$(cat {status})"
"""


class Yarn:
    """A command that records how it is called."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.path = directory / "yarn"
        self._record = directory / "record"
        self._status = directory / "status"
        self.path.write_text(
            YARN.format(record=self._record, status=self._status)
        )
        self.path.chmod(0o755)
        self.exit_with(0)

    def exit_with(self, status: int) -> None:
        self._status.write_text(str(status))

    def calls(self) -> list[list[str]]:
        """Return the arguments of the calls since the last question."""
        text = self._record.read_text() if self._record.exists() else ""
        self._record.unlink(missing_ok=True)
        return [one.splitlines() for one in text.split("\n\n") if one]


@pytest.fixture
def yarn(tmp_path: pathlib.Path) -> Yarn:
    return Yarn(tmp_path)


class Pool:
    """A pool that answers; with hosts, or with an error."""

    def __init__(self, *hosts: dict[str, Any]) -> None:
        self.hosts: list[dict[str, Any]] = list(hosts)
        self.error: client.FpgapoolError | None = None

    def __call__(self) -> list[dict[str, Any]]:
        if self.error is not None:
            raise self.error
        return self.hosts


def watcher(pool: Pool, yarn: Yarn) -> yarn_labels.Watcher:
    return yarn_labels.Watcher(
        pool, yarn_labels.Yarn(str(yarn.path)).set_labels
    )


def test_what_is_run(yarn: Yarn, capsys: pytest.CaptureFixture[str]) -> None:
    pool = Pool(
        inventory.host("aes"),
        inventory.host("fft", name="node2"),
        inventory.host("aes", name="node3"),
    )
    watch = watcher(pool, yarn)
    watch.step(0.0)
    assert yarn.calls() == []
    watch.step(30.0)
    assert yarn.calls() == [
        [
            *("rmadmin", "-addToClusterNodeLabels"),
            "acc-aes(exclusive=false),acc-fft(exclusive=false)",
        ],
        [
            *("rmadmin", "-replaceLabelsOnNode"),
            "node1=acc-aes node2=acc-fft node3=acc-aes",
        ],
    ]
    watch.step(31.0)
    assert yarn.calls() == []
    pool.hosts[1] = inventory.host("fft", name="node2", up=False)
    watch.step(32.0)
    assert yarn.calls() == [["rmadmin", "-replaceLabelsOnNode", "node2"]]
    assert capsys.readouterr().out.splitlines() == [
        *("node1: acc-aes", "node2: acc-fft", "node3: acc-aes"),
        "node2: no label",
    ]


def test_failures_are_told_and_tried_again(
    yarn: Yarn, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = Pool(inventory.host("aes"))
    watch = watcher(pool, yarn)
    watch.step(0.0)
    yarn.exit_with(1)
    watch.step(30.0)
    (added,) = yarn.calls()
    assert "retrying" in capsys.readouterr().err
    yarn.exit_with(0)
    pool.error = client.FrontDoorUnavailable("the API is away")
    watch.step(32.0)
    assert yarn.calls() == []
    assert codes.FRONT_DOOR_UNAVAILABLE in capsys.readouterr().err
    pool.error = None
    watch.step(34.0)
    assert yarn.calls() == [
        added,
        ["rmadmin", "-replaceLabelsOnNode", "node1=acc-aes"],
    ]
    watch.step(36.0)
    assert yarn.calls() == []


def test_a_missing_command_is_told(
    yarn: Yarn, capsys: pytest.CaptureFixture[str]
) -> None:
    yarn.path.unlink()
    watch = watcher(Pool(inventory.host("aes")), yarn)
    watch.step(0.0)
    watch.step(30.0)
    assert str(yarn.path) in capsys.readouterr().err


@pytest.mark.parametrize("interval", ["0", "31", "nan", "soon"])
def test_wrong_intervals(
    interval: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        yarn_labels.main(["--interval", interval])
    assert caught.value.code == 2
    assert "seconds from 0.1 to 30" in capsys.readouterr().err


def test_hosts_come_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {
        "": {"summary": {"hosts": [1, 2]}, "next": "b"},
        "b": {"summary": {"hosts": [3]}},
    }
    monkeypatch.setattr(
        yarn_labels.asking,
        "ask",
        lambda asked, **_: [pages[members["after"]] for _, members in asked],
    )
    assert yarn_labels.hosts("socket") == [1, 2, 3]
