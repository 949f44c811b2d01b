# SPDX-License-Identifier: Apache-2.0

"""Whether database, conductor, agents and worker processes agree."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import time
import typing
from collections.abc import Iterator

import kombu

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from tests.harness import waiting

if typing.TYPE_CHECKING:
    from tests.harness import cloud as clouds

_EXCHANGE = "fpgapool"
# Messages go to the leader by its name or to any conductor.
_TOPICS = "fpgapool-conductor.#"
# How soon all agents have reported that can: with the short time limits of
# tests, and with those that operators get.
_REPORT_LIMIT_S, _UNHURRIED_REPORT_LIMIT_S = 2.0, 15.0
_LIVE = ("QUEUED", "PREPARING", "READY", "ACTIVE", "DETACHED")
_IDLE = "idle"
_GROUP = "group"

#: Host's name, device, slot.
Place: typing.TypeAlias = tuple[str, str, int]


@dataclasses.dataclass(frozen=True)
class _Claim:
    """What one part of the pool says of a session or group that has a slot."""

    session_id: str
    state: str
    generation: int


def check(cloud: clouds.Cloud, live: int | None, limit_s: float) -> None:
    """See :meth:`tests.harness.cloud.Cloud.check_consistent`."""
    differences: list[str] = ["nothing could be asked"]

    def consistent() -> bool:
        try:
            differences[:] = _differences(cloud, live)
        except exception.DatabaseError as error:
            differences[:] = [str(error)]
        return not differences

    waiting.wait_until(
        consistent,
        lambda: "the pool agrees:\n" + "\n".join(differences),
        limit_s,
    )


def _differences(cloud: clouds.Cloud, live: int | None) -> list[str]:
    stored, waiting_ids, problems = _stored(cloud)
    members, of_members = _members(cloud)
    problems += of_members
    count = len(stored) + len(waiting_ids)
    if live is not None and count != live:
        problems.append(f"{count} sessions live, {live} expected")
    problems += _conductor_differences(cloud, stored, members, waiting_ids)
    problems += _agent_differences(cloud, {**stored, **members})
    problems += _process_differences(cloud)
    return problems


def _stored(
    cloud: clouds.Cloud,
) -> tuple[dict[Place, _Claim], set[str], list[str]]:
    """Return the database's assignments, its queue and its faults."""
    snapshot = cloud.snapshot()
    sessions = {row.id: row for row in snapshot.live_sessions}
    places = dict(_places(snapshot))
    stored: dict[Place, _Claim] = {}
    problems = []
    assigned = set()
    for row in snapshot.assignments:
        if row.holder_kind == _GROUP:
            continue
        session = sessions.get(row.holder_id)
        place = places[row.slot_id]
        if session is None:
            problems.append(f"database: {place} is held by no live session")
            continue
        assigned.add(row.holder_id)
        if (session.slot_id, session.generation, session.state) != (
            row.slot_id,
            row.generation,
            row.phase.upper(),
        ):
            problems.append(f"database: {session} against {row}")
        stored[place] = _Claim(
            session.session_id, session.state, session.generation
        )
    queued = set()
    for job_id, session in sessions.items():
        if session.state == "QUEUED":
            queued.add(session.session_id)
        if (session.state == "QUEUED") == (job_id in assigned):
            problems.append(f"database: slot and state of {session}")
    return stored, queued, problems


def _members(
    cloud: clouds.Cloud,
) -> tuple[dict[Place, _Claim], list[str]]:
    """Return the members of groups in the database, and their faults."""
    snapshot = cloud.snapshot()
    places = dict(_places(snapshot))
    groups = {row.id: row for row in snapshot.groups}
    members, problems = {}, []
    for row in snapshot.assignments:
        if row.holder_kind != _GROUP:
            continue
        place, group = places[row.slot_id], groups.get(row.holder_id)
        if group is None:
            problems.append(f"database: {place} is held by no group")
            continue
        members[place] = _Claim(
            group.group_id, row.phase.upper(), row.generation
        )
    return members, problems


def _places(snapshot: typing.Any) -> Iterator[tuple[int, Place]]:
    hosts = {row.id: row for row in snapshot.hosts}
    devices = {row.id: row for row in snapshot.devices}
    for row in snapshot.slots:
        device = devices[row.device_id]
        host = hosts[device.host_id]
        yield row.id, (host.name, device.name, row.number)


def _conductor_differences(
    cloud: clouds.Cloud,
    stored: dict[Place, _Claim],
    members: dict[Place, _Claim],
    queued: set[str],
) -> Iterator[str]:
    summary = cloud.summary()
    counted = {
        state: count
        for state, count in summary["sessions"].items()
        if state in _LIVE and count
    }
    expected = collections.Counter(claim.state for claim in stored.values())
    if queued:
        expected["QUEUED"] = len(queued)
    if counted != dict(expected) or summary["waiting"] != len(queued):
        yield (
            f"conductor: {counted}, {summary['waiting']} waiting; database:"
            f" {dict(expected)}"
        )
    for place, state in _summary_slots(summary):
        claim = stored.get(place) or members.get(place)
        if state != (claim.state.lower() if claim else _IDLE):
            yield f"conductor: {place} is {state}; database: {claim}"
    yield from _view_differences(cloud, stored, queued)


def _summary_slots(
    summary: dict[str, typing.Any],
) -> Iterator[tuple[Place, str]]:
    for host in summary["hosts"]:
        for device in host["devices"]:
            for slot in device["slots"]:
                place = (host["name"], device["name"], slot["slot"])
                yield place, slot["state"]


def _view_differences(
    cloud: clouds.Cloud, stored: dict[Place, _Claim], queued: set[str]
) -> Iterator[str]:
    placed = {claim.session_id: place for place, claim in stored.items()}
    views = cloud.views({*placed, *queued})
    for session_id in {*placed, *queued}:
        view = views.get(session_id)
        if view is None:
            yield f"conductor: does not know {session_id}"
        elif session_id in queued:
            if view["state"] != "QUEUED":
                yield f"conductor: {session_id} is {view['state']}, not queued"
        else:
            place = (view["slot_host_name"], view["device"], view["slot"])
            claim = _Claim(session_id, view["state"], view["generation"])
            if (place, claim) != (
                placed[session_id],
                stored[placed[session_id]],
            ):
                yield f"conductor: {claim} at {place}; database: {stored}"


def _agent_differences(
    cloud: clouds.Cloud, stored: dict[Place, _Claim]
) -> Iterator[str]:
    hosts = {host.uuid: host for host in cloud.hosts.values()}
    reports = _fresh_reports(cloud, set(hosts))
    for uuid, host in hosts.items():
        report = reports.get(uuid)
        if report is None:
            yield f"agent of {host.name}: does not report"
            continue
        for line in _lines(report):
            claim = stored.get((host.name, line.device, line.slot))
            if _claim_of(line) != claim or (
                claim is None and line.state != _IDLE
            ):
                yield f"agent of {host.name}: {line}; database: {claim}"


def _lines(report: objects.AgentReport) -> Iterator[objects.SlotReport]:
    for device in report.devices:
        yield from device.slots


def _claim_of(line: objects.SlotReport) -> _Claim | None:
    if line.session_id is None:
        return None
    return _Claim(line.session_id, line.state.upper(), line.generation or 0)


def _fresh_reports(
    cloud: clouds.Cloud, uuids: set[str]
) -> dict[str, objects.AgentReport]:
    """Listen on the bus until every agent has reported once.

    The queue is a second one beside the conductor's: nothing is taken away.
    """
    reports: dict[str, objects.AgentReport] = {}

    def take(body: typing.Any, message: kombu.Message) -> None:
        document = json.loads(message.body)
        for method, arguments in _calls(json.loads(document["oslo.message"])):
            if method == "report":
                report = objects.AgentReport.from_primitive(
                    arguments["report"]
                )
                reports[report.host_uuid] = report

    url = cloud.transport_url.replace("rabbit://", "amqp://", 1)
    with kombu.Connection(url) as connection, connection.channel() as channel:
        name = channel.queue_declare(exclusive=True).queue
        channel.queue_bind(name, exchange=_EXCHANGE, routing_key=_TOPICS)
        queue = kombu.Queue(name, channel=channel, no_declare=True)
        deadline_s = time.monotonic() + (
            _REPORT_LIMIT_S if cloud.hurried else _UNHURRIED_REPORT_LIMIT_S
        )
        with (
            kombu.Consumer(
                channel, [queue], callbacks=[take], no_ack=True, accept=None
            ),
            contextlib.suppress(TimeoutError),
        ):
            while not uuids <= set(reports):
                # The others go on reporting while one is silent.
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    break
                connection.drain_events(timeout=left_s)
    return reports


def _calls(
    message: dict[str, typing.Any],
) -> Iterator[tuple[str, dict[str, typing.Any]]]:
    """Return the methods and arguments of a message, signed or not."""
    method, arguments = message.get("method", ""), message.get("args", {})
    if method == rpc.SIGNED:
        method, arguments, *_stamp = json.loads(arguments["body"])
    if method == rpc.SEVERAL:
        yield from arguments["casts"]
    else:
        yield method, arguments


def _process_differences(cloud: clouds.Cloud) -> Iterator[str]:
    for host in cloud.hosts.values():
        found = [(one.device, one.slot) for one in host.workers()]
        expected = [("board0", number) for number in range(host.plan.slots)]
        if found != expected:
            yield f"workers of {host.name}: {found}, not {expected}"
