# SPDX-License-Identifier: Apache-2.0

"""Agents of hosts that have groups."""

from __future__ import annotations

import hashlib

from fpgapool import objects
from fpgapool.agent import service
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
    serve_group(host, agent, local)
    return agent


def serve_group(
    host: harness.Host, agent: service.Agent, local: bool = True
) -> None:
    """Let both slots of a running agent serve a group."""
    keep(agent, 1)
    for slot in (0, 1):
        join(agent, 7 + slot, slot)
    for slot in (0, 1):
        host.conductor.wait_for_slot(slot, active)
    told = group_report(host, lambda one: one.endpoints)
    keep(agent, 2, hosts=(group_host(told, local),))
    group_report(host, lambda one: one.revision == 2)


def group_host(told: objects.GroupReport, local: bool) -> objects.GroupHost:
    return objects.GroupHost(
        host_uuid=harness.HOST,
        members=2,
        endpoints=told.endpoints[:1] if local else told.endpoints[1:],
        certificate_sha256=told.certificate_sha256,
    )


def group_report(host, test):
    """Wait for a report in which the group passes a test."""
    return host.conductor.wait_for(
        "report", lambda one: one.groups and test(one.groups[0])
    ).groups[0]
