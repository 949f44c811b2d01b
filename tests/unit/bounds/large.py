# SPDX-License-Identifier: Apache-2.0

"""A large pool, made at once from rows: no agents, no workers, no clock."""

import collections
import dataclasses
import datetime
import json
import random
import uuid
from collections.abc import Iterable
from typing import Any

from fpgapool import strategies
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import state as core_state
from fpgapool.core.queues import sharing
from fpgapool.db import api as db_api
from fpgapool.db import calendar
from fpgapool.db import migration
from fpgapool.db import rows
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.strategies import shared
from fpgapool.vocabulary import reservation
from fpgapool.vocabulary import states
from tests.unit.conductor import pumps
from tests.unit.conductor import world
from tests.unit.recorded import making

SLOTS_OF_HOST = 5
SHAPES = ("small", "medium", "large")
LIBRARY = ("aes", "copy", "fft", "gzip", "sha", "sobel")
GROUP_SLOTS = 500
NOW = 1.7e9


@dataclasses.dataclass(frozen=True)
class Size:
    """How large a pool is."""

    hosts: int = 2_000
    projects: int = 5_000
    sessions: int = 100_000

    @property
    def slots(self) -> int:
        return self.hosts * SLOTS_OF_HOST


def host_uuid(number: int) -> str:
    return str(uuid.UUID(int=number << 64))


def _others(size: Size) -> Iterable[Any]:
    for number in range(1, size.projects + 1):
        yield db_api.UsageRecord(
            id=number,
            project_id=project(number),
            accelerator="aes",
            day=datetime.date(2023, 11, 14),
        )
        yield db_api.InstanceRecord(
            id=number,
            instance_id=session_id(number),
            name=f"instance-{number}",
            project_id=project(1),
            created_at=NOW + number,
            token_nonce=f"{number:032x}",
            token_hash=f"{number:064x}",
        )
        yield db_api.BitstreamRecord(
            id=number,
            bitstream_id=session_id(number),
            name=f"bitstream-{number}",
            version="1.0",
            state="approved",
            shapes=SHAPES,
            format="declaration",
            project_id=project(number),
            user_id="u",
            accelerator="own",
            created_at=NOW,
            updated_at=NOW,
            profile={"peak_bytes_per_s": 1e9},
        )
        yield calendar.row(
            calendar.Reservation(
                number=-number,
                id=session_id(number),
                project_id=project(number),
                user_id="u",
                created_at=NOW,
                accelerator="aes",
                slots=4,
                start_s=NOW + 3600.0,
                end_s=NOW + 7200.0,
            )
        )
    for number in range(1, size.projects + 1):
        yield calendar.row(
            calendar.Reservation(
                number=-number,
                id=session_id(number),
                project_id=project(number),
                user_id="u",
                created_at=NOW,
                accelerator="aes",
                slots=4,
                start_s=NOW + number,
                end_s=NOW + number + 3600,
                host_uuids=tuple(
                    host_uuid(host)
                    for host in range(1, reservation.MAX_HOSTS + 1)
                ),
            )
        )
        yield db_api.GroupClientRecord(
            id=number,
            client_id=session_id(number),
            group_id=GROUP,
            project_id=project(number),
            user_id="u",
            state=states.CLIENT_ATTACHED,
            secret_hash=f"{number:064x}",
            created_at=NOW,
        )


def session_id(number: int) -> str:
    return str(uuid.UUID(int=number))


# Of the group and of its first client.
GROUP = str(uuid.UUID(int=0xA1))


def project(number: int) -> str:
    """Return a project's id, as long as Keystone's."""
    return f"{number:032x}"


def _hardware(size: Size) -> Iterable[Any]:
    for number in range(1, size.hosts + 1):
        yield db_api.HostRecord(
            id=number,
            uuid=host_uuid(number),
            name=f"compute-{number:05}.cloud.example.org",
            nic_bytes_per_s=1.25e9,
            up=number % 10 != 0,
        )
    for number in range(1, size.hosts + 1):
        yield db_api.DeviceRecord(
            id=number,
            host_id=number,
            name="board0",
            model="a model of a board",
            dma_bytes_per_s=2e9,
        )
    for number in range(1, size.slots + 1):
        host = (number - 1) // SLOTS_OF_HOST + 1
        yield db_api.SlotRecord(
            id=number,
            device_id=host,
            number=(number - 1) % SLOTS_OF_HOST,
            shape=SHAPES[host % len(SHAPES)],
            programmed=LIBRARY[number % len(LIBRARY)],
        )


def _sessions(size: Size) -> Iterable[db_api.SessionRecord]:
    chance = random.Random(1)
    held = size.slots - GROUP_SLOTS
    for number in range(1, size.sessions + 1):
        yield db_api.SessionRecord(
            id=number,
            session_id=session_id(number),
            request_id=f"request-{number:08}",
            project_id=project(number % size.projects),
            user_id=f"{number % size.projects:032x}",
            host_id=chance.randint(1, size.hosts),
            accelerator=LIBRARY[number % len(LIBRARY)],
            claimed_bytes=chance.randint(1, 10**9),
            state=states.ACTIVE if number <= held else states.QUEUED,
            slot_id=number if number <= held else None,
            generation=number if number <= held else 0,
            connect_timeout_s=30.0,
            resume_grace_s=10.0,
            queued_at=NOW - number / 1000,
            arrival_s=NOW - number / 1000,
            revision=3,
        )


def _groups(size: Size) -> Iterable[Any]:
    yield db_api.GroupRecord(
        id=1,
        group_id=GROUP,
        name="render",
        project_id=project(1),
        accelerator="aes",
        state=states.GROUP_ACTIVE,
        size=GROUP_SLOTS,
        min_size=1,
        max_size=GROUP_SLOTS,
        elastic=True,
        shared=True,
        projects=(),
        created_at=NOW,
        updated_at=NOW,
    )


def _assignments(size: Size) -> Iterable[db_api.AssignmentRecord]:
    held = size.slots - GROUP_SLOTS
    for number in range(1, size.slots + 1):
        is_group = number > held
        yield db_api.AssignmentRecord(
            slot_id=number,
            holder_kind=(
                states.HELD_BY_GROUP if is_group else states.HELD_BY_SESSION
            ),
            holder_id=1 if is_group else number,
            accelerator="aes" if is_group else LIBRARY[number % len(LIBRARY)],
            generation=number,
            phase=states.ACTIVE,
            local=False,
            assigned_at=NOW,
        )


def _library() -> list[db_api.AcceleratorRecord]:
    profile = world.PROFILE.to_primitive()["data"]
    return [
        db_api.AcceleratorRecord(name=name, profile=profile | {"name": name})
        for name in LIBRARY
    ]


def _rows(size: Size) -> dict[type, list[Any]]:
    """Return all rows, by the class of their records."""
    found = collections.defaultdict[type, list[Any]](list)
    for make in (_hardware, _sessions, _groups, _assignments, _others):
        for row in make(size):
            found[type(row)].append(row)
    found[db_api.AcceleratorRecord] = _library()
    return found


def _snapshot(found: dict[type, list[Any]]) -> db_api.Snapshot:
    """Return what a new leader reads of these rows."""
    return db_api.Snapshot(
        hosts=found[db_api.HostRecord],
        devices=found[db_api.DeviceRecord],
        slots=found[db_api.SlotRecord],
        accelerators=found[db_api.AcceleratorRecord],
        live_sessions=found[db_api.SessionRecord],
        ending_sessions=[],
        failed_sessions=[],
        unknown_sessions=[],
        assignments=found[db_api.AssignmentRecord],
        max_ids=collections.Counter(
            {kind: len(found[kind]) for kind in rows.TABLES}
        ),
        usage=found[db_api.UsageRecord],
        quotas=[],
        bitstreams=found[db_api.BitstreamRecord],
        instances=found[db_api.InstanceRecord],
        reservations=[],
        faults=[],
        groups=found[db_api.GroupRecord],
        group_clients=found[db_api.GroupClientRecord],
        group_desks=[],
    )


class Pump(pumps.AnsweringPump):
    """Answers changes, but does not make them."""

    def offer(self, item: Any, project_id: str | None = None) -> bool:
        """Answer at once, if anybody waits."""
        if hasattr(item, "future"):
            item.future.set_result(None)
        return True


class Wire(making.Wire):
    """Carries calls to a conductor, as JSON.

    :ivar sizes_bytes: of the largest answer of each method.
    """

    def __init__(self, endpoint: conductor_rpc.ConductorManager) -> None:
        self._endpoint = endpoint
        self.sizes_bytes = collections.Counter[str]()

    def cast(self, _context: Any, method: str, **kwargs: Any) -> None:
        """Send what has no answer nowhere."""

    def call(self, _context: Any, method: str, **kwargs: Any) -> Any:
        """Let the conductor answer."""
        sent = json.loads(json.dumps(kwargs))
        text = json.dumps(getattr(self._endpoint, method)(None, **sent))
        known = self.sizes_bytes[method]
        self.sizes_bytes[method] = max(known, len(text))
        return json.loads(text)


class Pool:
    """A conductor that leads a large pool, and its database."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.database = db_api.Database("sqlite://")
        migration.sync(self.database.engine)
        found = _rows(size)
        with self.database.engine.begin() as connection:
            for kind in rows.TABLES:
                rows.upsert(connection, kind, found[kind])
        strategy = shared.SharedStrategy(
            strategies.fifo({"slot_choice": "index"}, 0),
            sharing.ShareOptions(False),
            None,
            None,
        )
        self.engine = engine.Engine(
            core_state.PoolState(strategy, first_generation=1 << 32),
            admission.PoolLimits(
                default_budget=rules.Budget(limits=rules.Limits(slot_s=10**9))
            ),
            _snapshot(found),
            "wra",
        )
        self.engine.start(NOW)
        # Its agents have reported.
        for number, host in enumerate(
            self.engine.pool.registry.hosts.values()
        ):
            host.up = number % 10 != 0
        self.endpoint = conductor_rpc.ConductorManager(
            Pump(self.engine.questions), self.database, 1
        )
        self.wire = Wire(self.endpoint)

    def conductor(self) -> conductor_api.ConductorAPI:
        """Return what asks the conductor."""
        return making.api_on("conductor", self.wire)

    def close(self) -> None:
        self.database.close()
