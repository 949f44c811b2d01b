# SPDX-License-Identifier: Apache-2.0

"""An agent with real workers, and real desks of groups."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import logging
import os
import pathlib
import signal
import socket
import stat
import threading
from collections.abc import Callable

import pytest

from fpgapool import objects
from fpgapool.agent import service
from fpgapool.agent.supervision import desks
from fpgapool.client import errors
from fpgapool.client.doors import groupdoor
from fpgapool.client.groups import group
from fpgapool.common.channels import descriptors
from fpgapool.protocol import groups
from tests.functional.agent import grouphosts
from tests.functional.agent import harness
from tests.harness import supervised
from tests.harness import waiting


def ended(host: harness.Host, slot: int, generation: int) -> str:
    """Wait until an assignment has ended, and return its code."""
    told = host.conductor.wait_for_slot(
        slot,
        lambda one: (
            grouphosts.idle(one)
            and one.last_result is not None
            and one.last_result.generation == generation
        ),
    )
    code: str = told.last_result.code
    return code


def release(agent: service.Agent, generation: int, slot: int) -> None:
    agent.manager.release(
        {}, 1, "board0", slot, grouphosts.GROUP, generation, "GROUP_RESIZED"
    )


class Door(groupdoor.GroupDoor):
    """Gives access by hand.

    :param local: whether the desk is reached through its Unix socket.
    """

    def __init__(self, host: harness.Host, local: bool) -> None:
        self._host = host
        self._local = local

    def attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> groupdoor.Access:
        members = groups.MemberList(0, self._hosts())
        return groupdoor.Access(
            grouphosts.GROUP, grouphosts.CLIENT, grouphosts.SECRET, members
        )

    def members(self, access: groupdoor.Access) -> groups.MemberList:
        return groups.MemberList(0, self._hosts())

    def _hosts(self) -> tuple[groups.Host, ...]:
        told = grouphosts.group_report(self._host, lambda one: one.endpoints)
        host = grouphosts.group_host(told, self._local)
        host = host.seen_in(grouphosts.GROUP)
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
        with harness.Client(self._host.front_door) as door:
            try:
                reply = door.request(
                    "connect_group", group_id=grouphosts.GROUP
                )
            except EOFError as exc:
                raise ConnectionResetError from exc
            if not reply["ok"]:
                raise ConnectionRefusedError(reply["error"]["code"])
            return socket.socket(fileno=door.fds.pop())

    def detach(self, access: groupdoor.Access) -> None:
        pass


def open_group(host: harness.Host, local: bool = True) -> group.Group:
    return group.group_open("g", front_door=Door(host, local))


def pieces(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("local", [True, False], ids=["rings", "network"])
def test_a_group_runs_tasks_and_gives_its_slots_back(host, local):
    agent = grouphosts.start_group(host, local)
    with open_group(host, local) as opened:
        futures = [opened.submit(piece) for piece in pieces(100)]
        assert [one.result(30) for one in futures] == pieces(100)
    for slot in (0, 1):
        release(agent, 7 + slot, slot)
    for slot in (0, 1):
        assert ended(host, slot, 7 + slot) == "OK"


def run_tasks_during(opened: group.Group, work: Callable[[], object]) -> int:
    """Run tasks before, during and after some work; each has one result."""
    done = collections.Counter[int]()
    results = []
    room = threading.Semaphore(64)

    def note(number: int) -> None:
        done[number] += 1
        room.release()

    def submit() -> None:
        assert room.acquire(timeout=harness.TIMEOUT_S)
        number = len(results)
        data = b"%d " % number * 5_000
        future = opened.submit(data)
        results.append((future, data))
        future.add_done_callback(lambda _future: note(number))

    for _ in range(100):
        submit()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        working = pool.submit(work)
        while not working.done():
            submit()
        working.result()
    for _ in range(100):
        submit()
    for future, data in results:
        assert future.result(harness.TIMEOUT_S) == data
    assert done == collections.Counter(range(len(results)))
    return len(results)


def desk_pid(agent: service.Agent) -> int:
    found: list[int | None] = []

    def look() -> bool:
        agent.loop.run_and_wait(
            lambda: found.append(
                supervised.desk_pid(agent.desks, grouphosts.GROUP)
            ),
            harness.TIMEOUT_S,
        )
        return found[-1] is not None

    waiting.wait_until(look, "a desk")
    return found[-1]


def kill(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert descriptors.is_readable(pidfd, harness.TIMEOUT_S)
    os.close(pidfd)


def counts_of(told: objects.GroupReport) -> objects.ClientCounts:
    (counts,) = told.clients
    return counts


def reports_now(agent: service.Agent) -> list[objects.GroupReport]:
    found: list[objects.GroupReport] = []
    agent.loop.run_and_wait(
        lambda: found.extend(agent.desks.reports()), harness.TIMEOUT_S
    )
    return found


def group_now(agent: service.Agent) -> objects.GroupReport:
    (told,) = reports_now(agent)
    return told


@pytest.mark.parametrize("adopted", [False, True])
def test_a_desk_is_killed_while_tasks_run(staying_host, adopted):
    agent = grouphosts.start_group(staying_host)
    before = group_now(agent)
    if adopted:
        agent.stop()
        agent = staying_host.start()
        grouphosts.keep(agent, 2, hosts=(grouphosts.group_host(before, True),))
        assert desk_pid(agent)
    with open_group(staying_host) as opened:
        run_tasks_during(opened, lambda: kill(desk_pid(agent)))
        grouphosts.group_report(
            staying_host,
            lambda one: (
                one.desk_boot_id != before.desk_boot_id
                and one.revision == 2
                and one.endpoints
            ),
        )
        for slot in (0, 1):
            staying_host.conductor.wait_for_slot(slot, grouphosts.active)


def test_a_desk_without_members_and_clients_ends(host):
    agent = grouphosts.start_group(host)
    with open_group(host) as opened:
        assert opened.run(b"x", timeout_s=30) == b"x"
        pidfd = os.pidfd_open(desk_pid(agent))
        for slot in (0, 1):
            release(agent, 7 + slot, slot)
        for slot in (0, 1):
            assert ended(host, slot, 7 + slot) == "OK"
        # The client's next tasks wait for the next member.
        future = opened.submit(b"y")
        grouphosts.join(agent, 9, 0)
        assert future.result(harness.TIMEOUT_S) == b"y"
        release(agent, 9, 0)
        assert ended(host, 0, 9) == "OK"
    assert descriptors.is_readable(pidfd, harness.TIMEOUT_S)
    os.close(pidfd)
    # The last counts are still there.
    told = grouphosts.group_report(
        host, lambda one: not one.endpoints and one.clients
    )
    counts = counts_of(told)
    assert (counts.ended, counts.input_bytes, counts.output_bytes) == (2, 2, 2)
    # Another desk counts anew.
    grouphosts.join(agent, 11, 1)
    grouphosts.group_report(
        host,
        lambda one: (
            one.desk_boot_id != told.desk_boot_id
            and one.revision == 2
            and one.endpoints
        ),
    )


def test_a_deleted_group_is_gone(host, caplog):
    agent = grouphosts.start_group(host)
    opened = open_group(host)
    assert opened.run(b"x", timeout_s=30) == b"x"
    pidfd = os.pidfd_open(desk_pid(agent))
    grouphosts.keep(agent, 3, deleted=True, clients=(), hosts=())
    grouphosts.group_report(host, lambda one: one.revision == 3)
    with pytest.raises(errors.TaskFailed) as caught:
        opened.run(b"x", timeout_s=30)
    assert caught.value.code == "ACCESS_REVOKED"
    for slot in (0, 1):
        release(agent, 7 + slot, slot)
        assert ended(host, slot, 7 + slot) == "OK"
    assert descriptors.is_readable(pidfd, harness.TIMEOUT_S)
    os.close(pidfd)
    waiting.wait_until(lambda: not reports_now(agent), "the end of the group")
    path = os.path.dirname(
        desks.member_path(host.settings.state_path, grouphosts.GROUP)
    )
    waiting.wait_until(lambda: not os.path.exists(path), "an empty directory")
    # A repeated order brings nothing back.
    grouphosts.keep(agent, 3, deleted=True, clients=(), hosts=())
    agent.loop.run_and_wait(lambda: None, harness.TIMEOUT_S)
    assert reports_now(agent) == []
    opened.close()
    loud = [one for one in caplog.records if one.levelno > logging.INFO]
    told = [one for one in loud if one.name.startswith("fpgapool.agent")]
    # The machine may lack something for isolation, as is said at the start.
    assert {one.getMessage() for one in told} <= {*agent.not_isolated}


def test_only_the_clients_of_the_last_order_are_served(host):
    agent = grouphosts.start_group(host)
    with open_group(host) as opened:
        assert opened.run(b"x", timeout_s=30) == b"x"
        grouphosts.keep(agent, 1, clients=())
        grouphosts.keep(agent, 9, epoch=0, clients=())
        assert opened.run(b"x", timeout_s=30) == b"x"
        grouphosts.keep(
            agent, 3, epoch=2, clients=(grouphosts.access("another"),)
        )
        grouphosts.group_report(host, lambda one: one.revision == 3)
        with pytest.raises(errors.TaskFailed) as caught:
            opened.run(b"x", timeout_s=30)
        assert caught.value.code == "ACCESS_REVOKED"
        # A former leader's order changes nothing.
        grouphosts.keep(agent, 4, epoch=1)
        grouphosts.keep(
            agent, 3, epoch=2, clients=(grouphosts.access("another"),)
        )
        agent.loop.run_and_wait(lambda: None, harness.TIMEOUT_S)
        assert agent.table.refusals["epoch"] == 1
        assert [one.revision for one in reports_now(agent)] == [3]


def test_orders_with_a_wrong_group_are_dropped(host):
    agent = grouphosts.start(host)
    for group_id in ("", "..", "a/b", "x" * 37):
        grouphosts.keep(agent, 1, group_id=group_id)
    harness.assign(agent, 7, session_id="s", group_id="../s")
    harness.assign(agent, 8, session_id="s", group_id=grouphosts.GROUP)
    agent.loop.run_and_wait(lambda: None, harness.TIMEOUT_S)
    assert reports_now(agent) == []
    assert agent.table.holders() == {}


@pytest.mark.security
def test_other_hosts_reach_the_desk_with_tls(directory):
    with harness.running_host(directory, tls=True) as host:
        grouphosts.start_group(host, local=False)
        told = grouphosts.group_report(host, lambda one: one.endpoints)
        assert len(bytes.fromhex(told.certificate_sha256)) == 32
        assert [one.network for one in told.endpoints] == ["local", "data"]
        with open_group(host, local=False) as opened:
            assert opened.run(b"x", timeout_s=30) == b"x"


@pytest.mark.security
def test_the_front_door_connects_only_projects_with_clients(host):
    agent = grouphosts.start_group(host)

    def code_of(**members: object) -> str:
        with harness.Client(host.front_door) as door:
            reply = door.request("connect_group", **members)
            assert len(door.fds) == reply["ok"]
            return "OK" if reply["ok"] else reply["error"]["code"]

    assert code_of(group_id=grouphosts.GROUP) == "OK"
    for wrong in ({}, {"group_id": 5}, {"group_id": "../x"}):
        assert code_of(**wrong) == "GROUP_NOT_FOUND"
    assert code_of(group_id="another") == "GROUP_NOT_FOUND"
    other = dataclasses.replace(grouphosts.access(), project_id="project-b")
    grouphosts.keep(agent, 3, clients=(other,))
    grouphosts.group_report(host, lambda one: one.revision == 3)
    assert code_of(group_id=grouphosts.GROUP) == "GROUP_NOT_FOUND"


@pytest.mark.security
def test_the_directory_of_a_desk_is_closed_to_others(host):
    grouphosts.start_group(host)
    path = pathlib.Path(
        desks.member_path(host.settings.state_path, grouphosts.GROUP)
    )
    for one in (path.parent, path.parent.parent):
        assert stat.S_IMODE(one.stat().st_mode) & 0o077 == 0
