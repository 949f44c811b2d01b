# SPDX-License-Identifier: Apache-2.0

"""A conductor and a database that are plain objects."""

import dataclasses
import datetime
import json
import uuid
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import falcon.testing
from keystonemiddleware import opts as keystone_opts
from oslo_config import cfg
from oslo_policy import policy as oslo_policy

from fpgapool import conf as fpgapool_conf
from fpgapool import objects
from fpgapool.api import app
from fpgapool.api import call as calls
from fpgapool.api import policy
from fpgapool.api import routes
from fpgapool.api.backends import waiters
from fpgapool.api.http import microversion
from fpgapool.common import exception
from fpgapool.conductor.decisions.budgets import book as budgets
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.decisions.calendar import book as calendar_book
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import first_slots
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.db import api as db_api
from fpgapool.objects import bitstream
from fpgapool.objects import group as group_objects
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import reservation
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states
from tests.unit.api import answers

SECRET = "5ec7e7" * 8
NOW = 1.7e9
HOST = str(uuid.UUID(int=7))

MEMBER = "eve:p1:member,reader"
READER = "rob:p1:reader"
STRANGER = "mallory:p2:member,reader"
ADMIN = "root:p9:admin,manager,member,reader"
SERVICE = "glance:p8:service"
AGENT = "agent1:p8:fpgapool:agent"
NOVA = "nova:p8:fpgapool:vendordata,service"
NOBODY = "nobody:p1:none"


#: Policies by which everybody sees the hardware, but not whose hosts it is.
OPEN = dict.fromkeys(
    (
        *("fpgapool:hosts:list", "fpgapool:hosts:get"),
        *("fpgapool:devices:list", "fpgapool:devices:get"),
        *("fpgapool:slots:list", "fpgapool:slots:get"),
        "fpgapool:pool:hosts",
    ),
    "@",
)

#: Of the group and the client that tests make.
GROUP = str(uuid.UUID(int=0x60))
CLIENT = str(uuid.UUID(int=0x61))
#: Of the reservation that tests make.
RESERVATION = str(uuid.UUID(int=0x62))


def path_of(route: routes.Route, **names: str) -> str:
    """Return a path of a route.

    :param names: in the place of those that mean nothing in particular.
    """
    known = {
        "name": "copy",
        "host_uuid": HOST,
        "device_id": "d",
        "slot_id": "s",
        "project_id": "p1",
        "bitstream_id": HOST,
        "session_id": view().session_id,
        "instance_id": HOST,
        "group_id": GROUP,
        "client_id": CLIENT,
        "reservation_id": RESERVATION,
    }
    return route.path.format(**known | names)


def view(number: int = 1, **members: Any) -> objects.SessionView:
    """Return a session of project p1 that is READY."""
    values: dict[str, Any] = {
        "session_id": str(uuid.UUID(int=number)),
        "request_id": f"r{number}",
        "project_id": "p1",
        "state": states.READY,
        "accelerator": "copy",
        "claimed_bytes": 1000,
        "revision": 3,
        "queued_at": 1.7e9,
        "slot_host_uuid": HOST,
        "slot_host_name": "compute1",
        "device": "board0",
        "slot": 1,
        "local": False,
        "endpoints": (
            objects.Endpoint("local", "", 0),
            objects.Endpoint("data", "10.0.0.1", 4000),
        ),
        "secret": SECRET,
        "certificate_sha256": "ab" * 32,
    }
    return objects.SessionView(**{**values, **members})


def queued(number: int = 1, **members: Any) -> objects.SessionView:
    """Return a session of project p1 that waits."""
    values: dict[str, Any] = {
        "state": states.QUEUED,
        "revision": 1,
        "queue_position": 4,
        "pending_reasons": (codes.NO_IDLE_SLOT, "NEW_REASON"),
        "endpoints": (),
        "secret": "",
        "certificate_sha256": None,
    }
    none = dict.fromkeys(
        ("slot_host_uuid", "slot_host_name", "device", "slot", "local")
    )
    return view(number, **{**values, **none, **members})


def ended(number: int = 1, **members: Any) -> objects.SessionView:
    """Return a session of project p1 that has been closed."""
    values: dict[str, Any] = {
        "state": states.CLOSED,
        "reason": codes.OK,
        "revision": 9,
        "finished_at": 1.7e9 + 5,
    }
    return queued(number, **{**values, "pending_reasons": (), **members})


#: What a conductor says of a project's share.
SHARE: dict[str, Any] = {
    "strategy": "fifo",
    "chosen_by": "order",
    "slots": 1,
    "at_limit": False,
    "waiting": 3,
    "weight": 2.0,
    "weights": 10.0,
    "round_bytes": 8e9,
    "score": -0.69,
    "projects": 5,
    "projects_before": 2,
    "projects_beside": 0,
    "turn_bytes": 4e9,
    "turn_s": 2400.0,
    "path": None,
}
BEFORE = {
    "urgent": 0,
    "higher_priority": 1,
    "better_share": 3,
    "own": 2,
    "others": 0,
    "competing": 4,
    "complete": True,
}


#: A reservation that fits, as a request has it.
RESERVED: dict[str, Any] = {
    "accelerator": "copy",
    "slots": 1,
    "start_at": "2023-11-15T08:00:00",
    "end_at": "2023-11-15T09:00:00Z",
}


class FakeConductor:
    """Knows the sessions that it is given, and does what it is told."""

    def __init__(self, *views: objects.SessionView) -> None:
        self.views = {one.session_id: one for one in views}
        self.requests: list[objects.OpenRequest] = []
        self.refusal: tuple[str, str] | None = None
        self.failure: Exception | None = None
        self.dry = objects.DryRun(
            state=states.PREPARING,
            expected_wait_s=0.0,
            expected_wait_low_s=0.0,
            expected_wait_high_s=0.0,
        )
        self.renewed: list[str] = []
        self.deaf = False
        self.revoked: list[str] = []
        self.catalogue = bitstreams.Catalogue(
            FakeDatabase.library(), last_id=0
        )
        self.running: set[str] = set()
        self.quotas: dict[str, dict[str, int]] = {}
        self.budgets: dict[str, dict[str, Any]] = {}
        self.calendar = calendar_book.Calendar()
        self.groups = group_book.GroupBook()
        #: Of each group, and their revision.
        self.group_hosts: tuple[objects.GroupHost, ...] = ()
        self.group_hosts_revision = 0
        self.quota = admission.ProjectQuota()
        #: What slots run without a file, by shape.
        self.builtins: dict[str, Any] = {}
        self.alive: list[dict[str, Any]] = []

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    def submit_sessions(
        self, requests: list[objects.OpenRequest]
    ) -> list[objects.SessionView]:
        self._fail()
        return [self._submit(request) for request in requests]

    def dry_run(self, request: objects.OpenRequest) -> objects.DryRun:
        self._fail()
        self.requests.append(request)
        return self.dry

    def _submit(self, request: objects.OpenRequest) -> objects.SessionView:
        self.requests.append(request)
        if self.refusal is not None:
            code, message = self.refusal
            return queued(
                session_id="",
                state=states.REJECTED,
                reason=code,
                message=message,
            )
        made = queued(
            len(self.views) + 100,
            request_id=request.request_id,
            project_id=request.project_id,
            user_id=request.user_id,
            host_uuid=request.host_uuid,
        )
        self.views[made.session_id] = made
        return made

    def session_now(
        self, session_id: str, project_id: str = ""
    ) -> objects.SessionView | None:
        self._fail()
        known = self.views.get(session_id)
        if known is None or known.project_id != project_id:
            return known and known.public()
        return known

    def get_sessions(
        self, session_ids: Sequence[str]
    ) -> list[objects.SessionView]:
        self._fail()
        known = map(self.views.get, session_ids)
        return [one.public() for one in known if one is not None]

    def end_sessions(
        self, ends: list[objects.SessionEnd]
    ) -> list[objects.SessionView | None]:
        self._fail()
        return [self._end(one) for one in ends]

    def _end(self, end: objects.SessionEnd) -> objects.SessionView | None:
        known = self.views.get(end.session_id)
        if known is None or known.project_id != end.project_id:
            return None
        if known.state in states.LIVE and not self.deaf:
            closed = states.CLOSED, codes.OK
            cancelled = states.CANCELLED, codes.CANCELLED_BY_CLIENT
            state, reason = closed if end.generation else cancelled
            self.views[end.session_id] = dataclasses.replace(
                known, state=state, reason=reason, revision=known.revision + 1
            )
        return self.views[end.session_id].public()

    def cancel_session(
        self, project_id: str, *, session_id: str, reason: str
    ) -> None:
        assert reason == codes.CANCELLED_BY_CLIENT
        end = objects.SessionEnd(project_id=project_id, session_id=session_id)
        self.end_sessions([end])

    def reopen_session(
        self,
        project_id: str,
        *,
        session_id: str,
        generation: int,
    ) -> objects.SessionView:
        self._fail()
        known = self.views[session_id]
        assert known.project_id == project_id
        movable = known.state == states.ACTIVE or known.reason in (
            codes.REOPENABLE
        )
        if movable and known.generation == generation and not self.deaf:
            self.views[session_id] = dataclasses.replace(
                known, state=states.QUEUED, revision=known.revision + 1
            )
        return self.views[session_id]

    def revoke_instance_token(self, instance_id: str) -> None:
        self._fail()
        self.revoked.append(instance_id)

    def renew_secret(self, session_id: str) -> None:
        self.renewed.append(session_id)
        if not self.deaf:
            known = self.views[session_id]
            self.views[session_id] = dataclasses.replace(
                known, secret="a" * 64, revision=known.revision + 1
            )

    def get_quota(self, project_id: str | None = None) -> dict[str, Any]:
        self._fail()
        return {
            resource: {"limit": 10, "source": "keystone"}
            for resource in (*accounting.QUOTAS, "novelty")
        }

    def get_share(
        self, project_id: str, *, session_id: str = ""
    ) -> dict[str, Any]:
        self._fail()
        view = self.views.get(session_id)
        own = view is not None and view.project_id == project_id
        return {
            **SHARE,
            "project_id": project_id,
            "session": {**BEFORE, "id": session_id} if own else None,
        }

    def set_quota(
        self, project_id: str, limits: Mapping[str, int | None]
    ) -> None:
        self._fail()
        own = self.quotas.setdefault(project_id, {})
        for resource, limit in limits.items():
            own.pop(resource, None)
            if limit is not None:
                own[resource] = limit

    def get_budget(self, project_id: str) -> dict[str, Any] | None:
        self._fail()
        return self.budgets.get(project_id)

    def budgets_after(self, project_id: str) -> list[dict[str, Any]]:
        self._fail()
        later = sorted(one for one in self.budgets if one > project_id)
        return [self.budgets[one] for one in later[:2]]

    def set_budget(
        self, project_id: str, budget: Mapping[str, Any] | None
    ) -> None:
        self._fail()
        if budget is None:
            del self.budgets[project_id]
            return
        self.budgets[project_id] = budgets.document(
            budgets.Account(
                project_id=project_id,
                budget=rules.Budget.of(budget),
                own=True,
                begin=datetime.date(2030, 6, 1),
                used=rules.Amounts(slot_s=4.0),
            )
        )

    def set_reservation(
        self,
        reservation_id: str,
        wanted: Mapping[str, Any] | None,
        *,
        project_id: str = "",
        user_id: str = "",
        exempt: bool = False,
    ) -> None:
        """Do it as a conductor does that has four slots."""
        self._fail()
        entries = self.calendar.entries
        if wanted is None:
            self.calendar.remove(entries[reservation_id])
            return
        known = entries.get(reservation_id)
        try:
            if known is None:
                entry = self.calendar.new(
                    reservation_id,
                    calendar_book.Owner(project_id, user_id),
                    reservation.checked(wanted),
                    NOW,
                )
            else:
                entry = self.calendar.changed(
                    known,
                    reservation.changed(known.wanted, wanted, begun=False),
                )
            if entry.slots > 1 and not exempt:
                raise admission.Rejected(codes.QUOTA_EXCEEDED, "too many")
            self.calendar.admit(
                entry,
                {reservation_id: frozenset(range(1, 5))},
                calendar_book.Slots({}, 3600.0),
                NOW,
            )
        except reservation.Invalid as error:
            raise exception.ReservationRefused(reason=str(error)) from error
        except admission.Rejected as error:
            raise exception.ReservationRefused(
                str(error), code=error.code
            ) from error

    def change_bitstream(self, change: bitstream.BitstreamChange) -> None:
        self._fail()
        try:
            self.catalogue.apply(
                change,
                bitstreams.LibraryContext(
                    now=1.7e9,
                    capacities={"medium": {"lut": 100}},
                    running=self.running,
                ),
            )
        except admission.Rejected as error:
            raise exception.BitstreamRefused(
                str(error), code=error.code
            ) from error

    def change_group(self, change: group_objects.GroupChange) -> None:
        self._fail()
        around = group_book.GroupContext(
            now=NOW,
            quota_of=lambda _project_id: self.quota,
            find_accelerator=lambda name, _project_id: name,
            is_stateless=lambda key: key == "copy",
            check_budget=lambda _project_id: None,
            check_first=lambda _group, _first: None,
        )
        try:
            for row in self.groups.planned(change, around):
                if isinstance(row, first_slots.FirstSlots):
                    continue
                if row.state == states.GROUP_DRAINING:
                    row = dataclasses.replace(row, state=states.GROUP_DELETED)
                self.groups.put([row])
        except admission.Rejected as error:
            raise exception.GroupRefused(
                str(error), code=error.code
            ) from error

    def group_now(self, group_id: str) -> objects.GroupView | None:
        self._fail()
        known = self.groups.groups.get(group_id)
        return known and objects.GroupView.of(
            known,
            hosts=self.group_hosts,
            hosts_revision=self.group_hosts_revision,
        )

    def pool_counts(self) -> dict[str, Any]:
        self._fail()
        return {
            "strategy": "wra",
            "sessions": {"QUEUED": 3, "CLOSED": 2},
            "queued": {"copy": 1},
            "builtins": self.builtins,
            "generation": 1,
            "hosts": 2,
            "hosts_up": 1,
            "devices": 1,
            "devices_healthy": 1,
            "slots": {"medium": {"active": 2, "faulty": 2}},
            "novelty": 1,
        }

    def hosts_now(self, host_uuids: Sequence[str]) -> dict[str, Any]:
        self._fail()
        figures = {
            "nic_load": 0.5,
            "queued": 1,
            "link_message": "not capped",
            "last_report_at": 1.7e9,
            "agent_version": "1.1.0",
            "unusable_slots": [3],
            "novelty": 1,
        }
        return {HOST: figures} if HOST in host_uuids else {}

    def services_now(self) -> dict[str, Any]:
        self._fail()
        return {"version": "1.1.0", "services": self.alive, "novelty": 1}


class FakeDatabase:
    """Holds two hosts, of which one has a board with four slots.

    :param conductor: has written its sessions and quotas.
    """

    def __init__(self, conductor: FakeConductor) -> None:
        self._conductor = conductor
        self.failure: Exception | None = None
        self.records = [
            record(number, project_id=f"p{number % 2 + 1}")
            for number in range(1, 8)
        ]
        self.asked: list[dict[str, Any]] = []
        self.instances: dict[str, db_api.InstanceRecord] = {}
        self.catalogue = conductor.catalogue
        self.book = conductor.groups
        self.usage: list[db_api.UsageSum] = []
        self.limits: list[db_api.QuotaRecord] = []
        self.reservations: list[db_api.ReservationRecord] = []
        # By the ids of slots, and the projects of these instances.
        self.reserved_for: dict[int, str] = {}
        self.projects: dict[str, str] = {}
        self.lease = db_api.Lease(holder="controller1", epoch=4, renewals=2)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    def bitstreams(
        self, project_id: str | None = None
    ) -> list[db_api.BitstreamRecord]:
        self._fail()
        return [
            one
            for one in self.catalogue.bitstreams
            if project_id in (None, one.project_id)
        ]

    def groups(self, *group_ids: str) -> list[db_api.GroupRecord]:
        self._fail()
        return [
            one
            for one in self.book.groups.values()
            if not group_ids or one.group_id in group_ids
        ]

    def group_clients(
        self, *, group_id: str | None = None, project_id: str | None = None
    ) -> list[db_api.GroupClientRecord]:
        self._fail()
        return [
            client
            for one in self.book.groups
            for client in self.book.clients_of(one)
            if group_id in (None, one)
            and project_id in (None, client.project_id)
        ]

    def calendar(self, project_id: str | None = None) -> list[Any]:
        self._fail()
        return [
            one
            for one in self._conductor.calendar.entries.values()
            if project_id in (None, one.project_id)
        ]

    def session_revisions(
        self, session_ids: Any
    ) -> dict[str, tuple[str, int]]:
        found = [self.get_session(name) for name in session_ids]
        return {
            one.session_id: (one.state, one.revision) for one in found if one
        }

    def project_use(self, project_id: str) -> db_api.ProjectUse:
        holders = self.inventory().holders
        return db_api.ProjectUse(
            slots=sum(one.project_id == project_id for one in holders),
            sessions=self.count_sessions(project_id),
            bitstreams=self.bitstreams(project_id),
            groups=[
                one for one in self.groups() if one.project_id == project_id
            ],
            group_clients=self.group_clients(project_id=project_id),
            quotas=self.quotas(project_id),
            reservations=self.calendar(project_id),
        )

    def count_sessions(
        self, project_id: str | None = None
    ) -> list[db_api.SessionCount]:
        self._fail()
        return [
            db_api.SessionCount(
                state=one.state,
                project_id=one.project_id,
                accelerator=one.accelerator,
                host_id=one.host_id,
                sessions=1,
                claimed_bytes=one.claimed_bytes,
            )
            for one in self.records
            if project_id in (None, one.project_id)
        ]

    def quotas(self, project_id: str) -> list[db_api.QuotaRecord]:
        self._fail()
        written = [
            db_api.QuotaRecord(
                id=100, project_id=project_id, resource=name, hard_limit=limit
            )
            for name, limit in self._conductor.quotas.get(
                project_id, {}
            ).items()
        ]
        return written + [
            one for one in self.limits if one.project_id == project_id
        ]

    def get_bitstream(
        self, bitstream_id: str
    ) -> db_api.BitstreamRecord | None:
        self._fail()
        for one in self.catalogue.bitstreams:
            if one.bitstream_id == bitstream_id:
                return one
        return None

    def accelerators(self) -> list[db_api.AcceleratorRecord]:
        self._fail()
        return self.library()

    @staticmethod
    def library() -> list[db_api.AcceleratorRecord]:
        return [
            db_api.AcceleratorRecord(
                name=name, profile={"peak_bytes_per_s": 1e9, "core": name}
            )
            for name in ("aes", "copy", "fft")
        ]

    def read_lease(self) -> db_api.Lease:
        self._fail()
        return self.lease

    def lease_renewed_at(self) -> float:
        self._fail()
        return NOW - 1.0

    def change_inventory(self, **members: Any) -> None:
        """Have other rows from now on."""
        changed = dataclasses.replace(self.inventory(), **members)
        self.inventory = lambda: changed  # type: ignore[method-assign]

    def inventory(self) -> db_api.Inventory:
        self._fail()
        return db_api.Inventory(
            hosts=[
                db_api.HostRecord(
                    id=1,
                    uuid=HOST,
                    name="compute1",
                    nic_bytes_per_s=1e9,
                    up=True,
                ),
                db_api.HostRecord(
                    id=2,
                    uuid=str(uuid.UUID(int=8)),
                    name="compute2",
                    nic_bytes_per_s=1e9,
                ),
            ],
            devices=[
                db_api.DeviceRecord(
                    id=1,
                    host_id=1,
                    name="board0",
                    model="test",
                    dma_bytes_per_s=2e9,
                )
            ],
            slots=[
                db_api.SlotRecord(
                    id=number,
                    device_id=1,
                    number=number - 1,
                    shape="medium",
                    faulty=number == 4,
                    reserved_for=self.reserved_for.get(number),
                )
                for number in range(1, 5)
            ],
            holders=[
                db_api.SlotHolder(
                    slot_id=number,
                    accelerator="copy",
                    phase="ACTIVE",
                    session_id=str(uuid.UUID(int=number)),
                    project_id=f"p{number}",
                    user_id=f"instance:{uuid.UUID(int=number)}",
                )
                for number in (1, 2)
            ],
            reservations=self.reservations,
            projects=self.projects,
        )

    def get_instance(self, instance_id: str) -> db_api.InstanceRecord | None:
        self._fail()
        return self.instances.get(instance_id)

    def list_instances(
        self, project_id: str | None = None, **options: Any
    ) -> list[db_api.InstanceRecord]:
        self._fail()
        self.asked.append({"project_id": project_id, **options})
        found = [
            one
            for one in self.instances.values()
            if project_id in (None, one.project_id)
        ]
        names = [one.instance_id for one in found]
        if options["marker"] is not None:
            found = found[names.index(options["marker"]) + 1 :]
        return found[: options["limit"]]

    def get_session(self, session_id: str) -> db_api.SessionRecord | None:
        self._fail()
        written = self._conductor.views.get(session_id)
        if written is not None:
            return row_of(written)
        for one in self.records:
            if one.session_id == session_id:
                return one
        return None

    def session_head(self, session_id: str) -> db_api.SessionHead | None:
        row = self.get_session(session_id)
        if row is None:
            return None
        names = [one.name for one in dataclasses.fields(db_api.SessionHead)]
        return db_api.SessionHead(**{one: getattr(row, one) for one in names})

    def list_sessions(
        self, filters: db_api.SessionFilter, **options: Any
    ) -> list[db_api.SessionRecord]:
        self._fail()
        self.asked.append({"filters": filters, **options})
        found = [
            one
            for one in reversed(self.records)
            if filters.project_id in (None, one.project_id)
            and filters.user_id in (None, one.user_id)
        ]
        names = [one.session_id for one in found]
        if options["marker"] is not None:
            found = found[names.index(options["marker"]) + 1 :]
        return found[: options["limit"]]

    def sum_usage(
        self, project_id: str | None = None, **options: Any
    ) -> list[db_api.UsageSum]:
        self._fail()
        self.asked.append({"project_id": project_id, **options})
        found = [
            one
            for one in self.usage
            if project_id in (None, one.project_id)
            and (
                options.get("after") is None
                or _key(one, options["keys"]) > tuple(options["after"])
            )
        ]
        return found[: options["limit"]]

    def close(self) -> None:
        pass


def _key(one: db_api.UsageSum, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(one, key) for key in keys)


def used(day: int, project_id: str, **members: Any) -> db_api.UsageSum:
    """Return what was used on a day of May."""
    values: dict[str, Any] = {
        "sessions": 2,
        "slot_s": 7.5,
        "group_busy_s": 2.5,
        "group_idle_s": 1.5,
        "input_bytes": 700,
        "output_bytes": 700,
        "energy_j": None,
        "accelerator": "copy",
    }
    return db_api.UsageSum(
        day=datetime.date(2026, 5, day),
        project_id=project_id,
        **{**values, **members},
    )


def record(number: int, **members: Any) -> db_api.SessionRecord:
    """Return a session's row."""
    values: dict[str, Any] = {
        "session_id": str(uuid.UUID(int=number)),
        "request_id": f"r{number}",
        "project_id": "p1",
        "user_id": "u1",
        "host_id": 1,
        "accelerator": "copy",
        "claimed_bytes": 1000,
        "state": states.QUEUED,
        "connect_timeout_s": 30.0,
        "resume_grace_s": 10.0,
        "queued_at": 1.7e9 + number,
    }
    return db_api.SessionRecord(id=number, **{**values, **members})


def row_of(one: objects.SessionView) -> db_api.SessionRecord:
    """Return the row of a session that the conductor knows."""
    members = {
        field.name: getattr(one, field.name)
        for field in description.FIELDS.in_record
        if field.in_view is not None
    }
    if one.slot is not None:
        members["slot_id"] = one.slot + 1
    return record(uuid.UUID(one.session_id).int, **members)


def configuration(**options: Any) -> cfg.ConfigOpts:
    """Return a configuration without Keystone."""
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    for group, group_opts in keystone_opts.list_auth_token_opts():
        conf.register_opts(group_opts, group=group)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override(
        "www_authenticate_uri",
        "http://keystone.example.org",
        group="keystone_authtoken",
    )
    for name, value in {"auth_strategy": "noauth", **options}.items():
        conf.set_override(name, value, group="api")
    # As many requests of an instance as there are routes.
    conf.set_override("burst", 100, group="vendordata")
    return conf


class Api:
    """The application with nothing real behind it.

    :param views: sessions that the conductor knows.
    :param conductor: instead of one that is a plain object.
    :param database: the same.
    :param policies: rules instead of the defaults.
    :param options: of ``[api]``.
    """

    def __init__(
        self,
        *views: objects.SessionView,
        table: Any = routes.ROUTES,
        max_waiters: int = 4,
        files: calls.Files | None = None,
        conductor: Any = None,
        database: Any = None,
        policies: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.conductor = conductor or FakeConductor(*views)
        self.database = database or FakeDatabase(self.conductor)
        self.conf = configuration(**options)
        self._options = ("auth_strategy", *options)
        self.waiting = waiters.Waiters(
            lambda ids: self.backends.leader.revisions(ids),
            max_waiters=max_waiters,
            interval_s=0.001,
        )
        enforcer = policy.Enforcer(self.conf)
        for name, rule in (policies or {}).items():
            default = oslo_policy.RuleDefault(name, rule)
            enforcer._enforcer.registered_rules[name] = default
        self.backends = calls.Backends(
            conductor=self.conductor,  # type: ignore[arg-type]
            reader=self.conductor,  # type: ignore[arg-type]
            default_limits=dict.fromkeys(accounting.QUOTAS, 20),
            database=self.database,  # type: ignore[arg-type]
            waiting=self.waiting,
            enforcer=enforcer,
            files=files,
            limits=calls.Limits.of(
                self.conf.api,
                # What a test changes is seen at once.
                inventory_cache_s=options.get("inventory_cache_s", 0.0),
                max_project_requests=options.get("max_project_requests", 36),
            ),
        )
        self.app = app.build(self.conf, self.backends, table)
        self.client = falcon.testing.TestClient(
            self.app,
            headers={
                "Host": "localhost",
                microversion.HEADER: f"{microversion.SERVICE_TYPE} latest",
            },
        )

    def ask(
        self,
        method: str,
        path: str,
        token: str = MEMBER,
        *,
        body: Any = None,
        check: bool = True,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> falcon.testing.Result:
        """Send a request and check what all answers have in common."""
        sent = {"X-Auth-Token": token, **(headers or {})}
        options.setdefault("remote_addr", "127.0.0.1")
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            options["body"] = (
                body if isinstance(body, bytes) else json.dumps(body)
            )
        answer = self.client.simulate_request(
            method, path, headers=sent, **options
        )
        if check:
            answers.check(
                method,
                path,
                answer.status_code,
                answer.headers,
                answer.json if answer.content else None,
            )
        return answer

    def pages(
        self, path: str, token: str = MEMBER, *, name: str = ""
    ) -> list[list[dict[str, Any]]]:
        """Return the members on all pages of a list.

        :param name: of the list, if the path does not end with it.
        """
        name = name or path.partition("?")[0].rpartition("/")[2]
        found = []
        while path:
            document = self.ask("GET", path, token).json
            found.append(document[name])
            (link,) = document.get(f"{name}_links", [{"href": ""}])
            path = link["href"].partition("localhost")[2]
        return found

    def error(self, *arguments: Any, **options: Any) -> tuple[int, str]:
        """Send a request that fails; :returns: status and code."""
        answer = self.ask(*arguments, **options)
        return answer.status_code, answer.json["errors"][0]["code"]

    def close(self) -> None:
        """End the thread, and forget the options."""
        self.waiting.close()
        # What is registered of a group is shared by all configurations.
        for name in self._options:
            self.conf.clear_override(name, group="api")


UNAVAILABLE = exception.DatabaseUnavailable(reason="gone")
