# SPDX-License-Identifier: Apache-2.0

"""Machines are moved while they stream.

Each row of the table in doc/source/install/nova.rst has its test. MOVES in the
environment says how often each machine is moved.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import os
import sys
from collections.abc import Callable

import pytest

from fpgapool.vocabulary import codes
from tests.harness import waiting
from tests.moves import machines

MOVES = int(os.environ.get("MOVES", "2"))
#: How many machines share them.
MACHINES = min(4, MOVES)
_MOVE_LIMIT_S = 600

pytestmark = [
    pytest.mark.long,
    # The first one waits for all servers.
    pytest.mark.timeout((1 + MOVES) * _MOVE_LIMIT_S),
]

#: Shorter than the kernels of workers wait for an answer, and longer.
SHORT_S = 5
LONG_S = 24
#: Longer than that, and than ``resume_grace_s`` in addition.
TOO_LONG_S = 40


def live_migrate(machine: machines.Machine) -> None:
    # Emulated processors do not mark all pages that they change while these
    # are copied: a machine that runs meanwhile has wrong memory afterwards.
    actions, server_id = machine.cloud.actions, machine.server.id
    actions.pause_server(server_id)
    machine.wait_status("PAUSED")
    actions.live_migrate_server(server_id)
    machine.wait_moved()
    actions.unpause_server(server_id)
    machine.wait_status("ACTIVE")
    machine.wait_left()


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
    name = f"snapshot-{machine.server.id}"
    machine.cloud.actions.create_server_image(
        machine.server.id, name, wait=True
    )
    machine.wait_status("ACTIVE")
    machine.cloud.delete_images(name)


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
        # Since Nova's API 2.95, whoever evacuates starts it.
        machine.wait_status("SHUTOFF")
        cloud.actions.start_server(machine.server.id)
        machine.wait_status("ACTIVE")
        cloud.hosts.start()


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to move a machine.

    :ivar goes_on: whether the program in it goes on.
    :ivar leaves: whether it is on the other host afterwards; None: maybe.
    :ivar codes: with which its session may end.
    :ivar alone: whether it happens to a host, so to one machine at a time.
    """

    act: Callable[[machines.Machine], None]
    goes_on: bool
    leaves: bool | None
    codes: tuple[str, ...] = ()
    alone: bool = False


_GONE = (codes.RESUME_TIMEOUT,)
KINDS = {
    "live-migrate": Kind(live_migrate, True, True),
    "pause": Kind(pause(SHORT_S), True, False),
    "pause-longer": Kind(pause(LONG_S), True, False),
    "pause-too-long": Kind(pause(TOO_LONG_S), True, False),
    "suspend": Kind(suspend, True, False),
    "snapshot": Kind(snapshot, True, False),
    "cold-migrate": Kind(cold_migrate, False, True, _GONE),
    "migrate-and-return": Kind(migrate_and_return, False, False, _GONE),
    "resize": Kind(resize, False, True, _GONE),
    "shelve": Kind(shelve, False, None, _GONE),
    "rebuild": Kind(rebuild, False, False, _GONE),
    "evacuate": Kind(evacuate, False, True, _GONE, alone=True),
}


def play(machine: machines.Machine, kind: Kind) -> str:
    """Move a machine once.

    :returns: what became of its session.
    """
    before = machine.wait_streaming()
    starts = machine.record.starts
    reconnects, reopens = before.reconnects, before.reopens
    host = machine.host
    kind.act(machine)
    after = machine.wait_streaming()
    machine.check_active()
    if kind.leaves is not None:
        assert (machine.host != host) == kind.leaves
    assert (machine.record.starts == starts) == kind.goes_on
    if kind.codes:
        row = machine.wait_end(before)
        assert row.reason in kind.codes, row
        # A program that is gone is told nothing.
        assert not before.ended
        outcome = row.reason
    else:
        assert after is before
        assert machine.row(after).finished_at is None
        outcome = "went on"
        if after.reopens > reopens:
            # Its accelerator needs no memory of what came before.
            outcome = "got another slot"
        elif after.reconnects > reconnects:
            outcome = "resumed"
    machine.check_rows()
    return outcome


def play_often(machine: machines.Machine, kind: Kind, times: int) -> list[str]:
    """Move a machine several times; return what became of its sessions."""
    return [play(machine, kind) for _ in range(times)]


@pytest.mark.parametrize("name", KINDS)
def test_moved_while_they_stream(
    name: str, cloud: machines.Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = KINDS[name]
    before = cloud.usage()
    count = 1 if kind.alone else MACHINES
    with (
        cloud.machines(count) as booted,
        concurrent.futures.ThreadPoolExecutor(count) as threads,
    ):
        plays = [
            threads.submit(play_often, machine, kind, -(-MOVES // count))
            for machine in booted
        ]
    outcomes = collections.Counter(
        outcome for each in plays for outcome in each.result()
    )
    records = [machine.record for machine in booted]
    assert not any(one.wrong for each in records for one in each.streams)
    # Also those that a machine had no time to tell of.
    rows = [row for machine in booted for row in machine.rows()]
    assert len(rows) >= sum(len(each.streams) for each in records)
    assert all(row.finished_at and row.reason for row in rows), rows
    # What is charged is what all of them did, wherever the machine was.
    expected = before + collections.Counter(
        sessions=len(rows), input_bytes=sum(row.input_bytes for row in rows)
    )
    waiting.wait_until(
        lambda: cloud.usage() == expected,
        lambda: f"usage is {expected}; it is {cloud.usage()}",
    )
    ends = collections.Counter(row.reason for row in rows)
    refusals = collections.Counter(
        code for each in records for code in each.refusals
    )
    with capsys.disabled():
        sys.stdout.write(
            f"\n{name}: {outcomes.total()} moves, {dict(outcomes)}; sessions"
            f" {dict(ends)}; refusals {dict(refusals)};"
            f" {sum(each.pieces for each in records)} pieces\n"
        )
