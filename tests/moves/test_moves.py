# SPDX-License-Identifier: Apache-2.0

"""Machines are moved while they stream.

Each row of the table in doc/source/install/nova.rst has its test. MOVES in the
environment says how often each machine is moved.
"""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Callable

import pytest

from fpgapool.vocabulary import codes
from tests.harness import waiting
from tests.moves import machines

MOVES = int(os.environ.get("MOVES", "2"))
_MOVE_LIMIT_S = 150

pytestmark = [
    pytest.mark.long,
    # The first one waits for all servers.
    pytest.mark.timeout(600 + MOVES * _MOVE_LIMIT_S),
]

#: Shorter than the kernels of workers wait for an answer, and longer.
SHORT_S = 5
LONG_S = 24
#: Longer than that, and than ``resume_grace_s`` in addition.
TOO_LONG_S = 40


def live_migrate(machine: machines.Machine) -> None:
    machine.cloud.actions.live_migrate_server(machine.server.id)
    machine.wait_moved()


def cold_migrate(machine: machines.Machine) -> None:
    machine.cloud.actions.migrate_server(machine.server.id)
    machine.wait_status("VERIFY_RESIZE")
    machine.wait_streaming()
    machine.cloud.actions.confirm_server_resize(machine.server.id)
    machine.wait_status("ACTIVE")


def migrate_and_return(machine: machines.Machine) -> None:
    machine.cloud.actions.migrate_server(machine.server.id)
    machine.wait_status("VERIFY_RESIZE")
    machine.cloud.actions.revert_server_resize(machine.server.id)
    machine.wait_status("ACTIVE")


def resize(machine: machines.Machine) -> None:
    other = machine.cloud.create_flavor()
    machine.cloud.actions.resize_server(machine.server.id, other.id)
    machine.wait_status("VERIFY_RESIZE")
    machine.cloud.actions.confirm_server_resize(machine.server.id)
    machine.wait_status("ACTIVE")


def pause(time_s: float) -> Callable[[machines.Machine], None]:
    def act(machine: machines.Machine) -> None:
        machine.cloud.actions.pause_server(machine.server.id)
        machine.wait_status("PAUSED")
        waiting.pause(time_s)
        machine.cloud.actions.unpause_server(machine.server.id)
        machine.wait_status("ACTIVE")

    return act


def suspend(machine: machines.Machine) -> None:
    machine.cloud.actions.suspend_server(machine.server.id)
    machine.wait_status("SUSPENDED")
    machine.cloud.actions.resume_server(machine.server.id)
    machine.wait_status("ACTIVE")


def snapshot(machine: machines.Machine) -> None:
    machine.cloud.actions.create_server_image(
        machine.server.id, "snapshot", wait=True
    )
    machine.wait_status("ACTIVE")
    machine.cloud.delete_images("snapshot")


def shelve(machine: machines.Machine) -> None:
    actions = machine.cloud.actions
    actions.shelve_server(machine.server.id)
    machine.wait_status("SHELVED")
    actions.shelve_offload_server(machine.server.id)
    machine.wait_status("SHELVED_OFFLOADED")
    actions.unshelve_server(machine.server.id)
    machine.wait_status("ACTIVE")


def rebuild(machine: machines.Machine) -> None:
    machine.cloud.actions.rebuild_server(
        machine.server.id, machine.cloud.image_id
    )
    machine.wait_status("ACTIVE")


def evacuate(machine: machines.Machine) -> None:
    cloud = machine.cloud
    number = machine.host
    cloud.hosts.crash(number)
    with cloud.compute.lost(cloud.nova, number):
        cloud.actions.evacuate_server(machine.server.id)
        machine.wait_moved()
        cloud.hosts.start()


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to move a machine.

    :ivar goes_on: whether the program in it goes on.
    :ivar leaves: whether it is on the other host afterwards; None: maybe.
    :ivar codes: with which its session may end.
    """

    act: Callable[[machines.Machine], None]
    goes_on: bool
    leaves: bool | None
    codes: tuple[str, ...] = ()


_GONE = (codes.RESUME_TIMEOUT,)
KINDS = {
    "live-migrate": Kind(live_migrate, True, True),
    "pause": Kind(pause(SHORT_S), True, False),
    "pause-longer": Kind(pause(LONG_S), True, False),
    "pause-too-long": Kind(pause(TOO_LONG_S), True, False, _GONE),
    "suspend": Kind(suspend, True, False),
    "snapshot": Kind(snapshot, True, False),
    "cold-migrate": Kind(cold_migrate, False, True, _GONE),
    "migrate-and-return": Kind(migrate_and_return, False, False, _GONE),
    "resize": Kind(resize, False, True, _GONE),
    "shelve": Kind(shelve, False, None, _GONE),
    "rebuild": Kind(rebuild, False, False, _GONE),
    "evacuate": Kind(evacuate, False, True, _GONE),
}


def play(machine: machines.Machine, kind: Kind) -> str:
    """Move a machine once.

    :returns: what became of its session.
    """
    before = machine.wait_streaming()
    starts, reconnects = machine.record.starts, before.reconnects
    host = machine.host
    kind.act(machine)
    after = machine.wait_streaming()
    if kind.leaves is not None:
        assert (machine.host != host) == kind.leaves
    assert (machine.record.starts == starts) == kind.goes_on
    if kind.codes:
        row = machine.wait_end(before)
        assert row.reason in kind.codes, row
        # A program that is gone is told nothing.
        assert before.ended == (row.reason if kind.goes_on else "")
        outcome = row.reason
    else:
        assert after is before
        assert machine.row(after).finished_at is None
        resumed = after.reconnects > reconnects
        outcome = "resumed" if resumed else "went on"
    machine.check_rows()
    return outcome


@pytest.mark.parametrize("name", KINDS)
def test_moved_while_it_streams(
    name: str, cloud: machines.Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = KINDS[name]
    before = cloud.usage()
    with cloud.machine() as machine:
        outcomes = collections.Counter(
            play(machine, kind) for _ in range(MOVES)
        )
    streams = machine.record.streams
    assert [one.wrong for one in streams] == [[]] * len(streams)
    rows = [machine.wait_end(one) for one in streams]
    assert all(row.reason for row in rows)
    # What is charged is what all of them did, wherever the machine was.
    expected = before + collections.Counter(
        sessions=len(rows), input_bytes=sum(row.input_bytes for row in rows)
    )
    waiting.wait_until(
        lambda: cloud.usage() == expected,
        lambda: f"usage is {expected}; it is {cloud.usage()}",
    )
    with capsys.disabled():
        pieces = sum(one.pieces for one in streams)
        print(f"\n{name}: {MOVES} moves, {dict(outcomes)}, {pieces} pieces")
