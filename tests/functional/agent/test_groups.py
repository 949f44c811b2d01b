# SPDX-License-Identifier: Apache-2.0

"""An agent with real workers, and real desks of groups."""

from __future__ import annotations

import hashlib
import socket

import pytest

from fpgapool import objects
from fpgapool.agent import service
from fpgapool.client import group
from fpgapool.client import groupdoor
from fpgapool.protocol import groups
from tests.functional.agent import harness

GROUP = "7f000000-0000-4000-8000-00000000000a"
CLIENT = "7f000000-0000-4000-8000-00000000000c"
SECRET = "5" * 64


def idle(slot):
    return slot.state == "idle"


def active(slot):
    return slot.state == "active"


def access(client_id: str = CLIENT) -> objects.GroupAccess:
    return objects.GroupAccess(
        client_id=client_id,
        project_id=harness.PROJECT,
        secret_sha256=hashlib.sha256(SECRET.encode()).hexdigest(),
    )


def order(revision: int, **changes: object) -> objects.GroupOrder:
    return objects.GroupOrder(
        **{
            "group_id": GROUP,
            "revision": revision,
            "project_id": harness.PROJECT,
            "accelerator": "copy",
            "arbitration": "fifo",
            "clear_between": "clients",
            "max_task_bytes": 1 << 20,
            "clients": (access(),),
            **changes,
        }
    )


def keep(
    agent: service.Agent, revision: int, epoch: int = 1, **changes: object
) -> None:
    agent.manager.keep_group(
        {}, epoch, order(revision, **changes).to_primitive()
    )


def join(agent: service.Agent, generation: int, slot: int) -> None:
    harness.assign(
        agent,
        generation,
        slot,
        session_id=GROUP,
        group_id=GROUP,
        claimed_bytes=0,
        connect_timeout_s=0.0,
        resume_grace_s=0.0,
    )


def release(agent: service.Agent, generation: int, slot: int) -> None:
    agent.manager.release(
        {}, 1, "board0", slot, GROUP, generation, "GROUP_RESIZED"
    )


class Door(groupdoor.GroupDoor):
    """Gives access by hand.

    :param host: of the desk.
    :param local: whether the desk is reached through its Unix socket.
    """

    def __init__(self, host: harness.Host, local: bool) -> None:
        self._host = host
        self._local = local

    def attach(self, name: str, deadline_s: float | None) -> groupdoor.Access:
        members = groups.MemberList(0, self._hosts())
        return groupdoor.Access(GROUP, CLIENT, SECRET, members)

    def members(self, access: groupdoor.Access) -> groups.MemberList:
        return groups.MemberList(0, self._hosts())

    def _hosts(self) -> tuple[groups.Host, ...]:
        told = group_report(self._host, lambda one: one.endpoints)
        host = group_host(told, self._local)
        endpoints = [
            (one.network, one.address, one.port) for one in host.endpoints
        ]
        return (
            groups.Host(
                host.host_uuid,
                host.members,
                tuple(endpoints),
                host.certificate_sha256,
            ),
        )

    def connect_local(
        self, access: groupdoor.Access, host_id: str
    ) -> socket.socket:
        agent = self._host.agents[-1]
        found: list[socket.socket] = []
        agent.loop.run_and_wait(
            lambda: found.append(agent.desks.connect(harness.PROJECT, GROUP)),
            harness.TIMEOUT_S,
        )
        return found[0]

    def detach(self, access: groupdoor.Access) -> None:
        pass


def start(host: harness.Host) -> service.Agent:
    agent = host.start()
    for slot in (0, 1):
        host.conductor.wait_for_slot(slot, idle)
    return agent


def start_group(host: harness.Host, local: bool = True) -> service.Agent:
    """Start an agent whose two slots serve a group.

    :param local: whether clients reach the desk through its Unix socket.
    """
    agent = start(host)
    keep(agent, 1)
    for slot in (0, 1):
        join(agent, 7 + slot, slot)
    for slot in (0, 1):
        host.conductor.wait_for_slot(slot, active)
    told = group_report(host, lambda one: one.endpoints)
    keep(agent, 2, hosts=(group_host(told, local),))
    group_report(host, lambda one: one.revision == 2)
    return agent


def group_host(told: objects.GroupReport, local: bool) -> objects.GroupHost:
    return objects.GroupHost(
        host_uuid=harness.HOST,
        members=2,
        endpoints=told.endpoints[:1] if local else told.endpoints[1:],
        certificate_sha256=told.certificate_sha256,
    )


def open_group(host: harness.Host, local: bool = True) -> group.Group:
    return group.group_open("g", door=Door(host, local))


def pieces(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def group_report(host, test):
    """Wait for a report in which the group passes a test."""
    return host.conductor.wait_for(
        "report", lambda one: one.groups and test(one.groups[0])
    ).groups[0]


@pytest.mark.parametrize("local", [True, False], ids=["rings", "network"])
def test_a_group_runs_tasks_and_gives_its_slots_back(host, local):
    agent = start_group(host, local)
    with open_group(host, local) as opened:
        futures = [opened.submit(piece) for piece in pieces(100)]
        assert [one.result(30) for one in futures] == pieces(100)
    for slot in (0, 1):
        release(agent, 7 + slot, slot)
    for slot in (0, 1):
        told = host.conductor.wait_for_slot(
            slot, lambda one: idle(one) and one.last_result
        )
        assert told.last_result.generation == 7 + slot
        assert (told.last_result.state, told.last_result.code) == (
            "CLOSED",
            "OK",
        )
