# SPDX-License-Identifier: Apache-2.0

"""A conductor's engine with agents that are plain objects.

The agents behave as the contract says (epochs and generations checked, the
whole slot table in each report), the network between them is a list: tests
deliver, drop, double and reorder its messages as they like.
"""

import collections
import dataclasses
import hashlib
import math
import uuid
from collections.abc import Callable
from typing import Any

from fpgapool import objects
from fpgapool import strategies
from fpgapool.conductor import counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.conductor.decisions.views import questions
from fpgapool.conductor.runtime import past_usage
from fpgapool.core import health
from fpgapool.core import state as core_state
from fpgapool.core.queues import sharing
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import groups
from fpgapool.db import api as db_api
from fpgapool.db import inventory
from fpgapool.db import records
from fpgapool.db import rows
from fpgapool.strategies import base
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.harness import holders
from tests.harness import pool_invariants
from tests.unit.conductor import past

PROFILE = objects.AcceleratorProfile(
    name="copy",
    peak_bytes_per_s=1e9,
    return_ratio=1.0,
    stateless=True,
    core="copy",
)

#: Sizes between which sessions are counted apart; fifo does not care.
THRESHOLDS_BYTES = (1000.0, 2000.0)

#: For how long a new leader remembers sessions that failed before.
REMEMBERED_S = 120.0

_RECORDS = {
    "hosts": db_api.HostRecord,
    "devices": db_api.DeviceRecord,
    "slots": db_api.SlotRecord,
    "bitstreams": db_api.BitstreamRecord,
    "sessions": db_api.SessionRecord,
    "assignments": db_api.AssignmentRecord,
    "usage": db_api.UsageRecord,
    "instances": db_api.InstanceRecord,
    "quotas": db_api.QuotaRecord,
    "reservations": db_api.ReservationRecord,
    "faults": db_api.FaultRecord,
    "groups": db_api.GroupRecord,
    "group_clients": db_api.GroupClientRecord,
    "group_desks": db_api.GroupDeskRecord,
}


def request(**changes: object) -> objects.OpenRequest:
    """Return a request; nobody has waited too long for what it asks for."""
    members = {
        "request_id": "r",
        "project_id": "p",
        "user_id": "u",
        "host_uuid": "a",
        "accelerator": "copy",
        "claimed_bytes": 1000,
    }
    return objects.OpenRequest(**members | changes)


def opening(
    wanted: objects.OpenRequest,
    awaited_until: float = math.inf,
    secret: str = "",
) -> inputs.Open:
    """Return a request of which somebody waits to hear."""
    return inputs.Open(wanted, awaited_until, secret)


def library(*names: str) -> inputs.Library:
    """Return a library of accelerators that differ in their names only."""
    return inputs.Library(
        [
            db_api.AcceleratorRecord(
                name=name,
                profile=PROFILE.to_primitive()["data"] | {"name": name},
            )
            for name in names
        ]
    )


def reopening(view: objects.SessionView, host_uuid: str) -> inputs.Reopen:
    """Return the wish for another slot than a session has, or had."""
    return inputs.Reopen(
        view.project_id,
        view.session_id,
        view.generation,
        host_uuid,
    )


def find(
    asked: questions.Questions, project_id: str, request_id: str
) -> objects.SessionView | None:
    """Return the session of a request, if it is in memory."""
    found = asked.pool.sessions.by_request.get((project_id, request_id))
    return found and asked.pool.lives.view(found)


def _news(message: effects.Message) -> effects.Message:
    """Return a refusal as what a front door hears then."""
    if isinstance(message, effects.EarlyReply) and isinstance(
        message.value, objects.SessionView
    ):
        return effects.PublishSession(message.value.host_uuid, message.value)
    return message


@dataclasses.dataclass
class Slot:
    """A slot of an agent that does what it is told."""

    state: str = states.SLOT_IDLE
    session_id: str | None = None
    generation: int | None = None
    seen_generation: int = 0
    programmed: str | None = None
    input_bytes: int = 0
    last_result: objects.SessionResult | None = None
    previous_result: objects.SessionResult | None = None
    energy_j: float | None = None
    programming_time_s: float = 0.0
    beyond_claim: bool | None = None


#: Input and output of a task of a group, unless a test says otherwise.
TASK_BYTES = {"input_bytes": 5, "output_bytes": 3}


@dataclasses.dataclass
class Desk:
    """The desk of a group on a host; all its clients connect at once."""

    revision: int = 0
    boot_id: str = "1"
    order: objects.GroupOrder | None = None
    #: By client.
    counts: dict[str, objects.ClientCounts] = dataclasses.field(
        default_factory=dict
    )
    has_endpoints: bool = True
    #: Clients that are not connected.
    away: set[str] = dataclasses.field(default_factory=set)

    def clients(self) -> tuple[objects.ClientCounts, ...]:
        """What the agent reports of the clients."""
        admitted = self.order.clients if self.order else ()
        here = {one.client_id for one in admitted} - self.away
        for client_id in here - self.counts.keys():
            self.count(client_id, waiting=0, running=0)
        return tuple(
            dataclasses.replace(one, connected=one.client_id in here)
            for one in self.counts.values()
        )

    def count(self, client_id: str, **more: float) -> None:
        """Add to what a client has done; waiting and running are set."""
        for name, one_bytes in TASK_BYTES.items():
            more.setdefault(name, one_bytes * more.get("ended", 0))
        old = self.counts.get(client_id) or objects.ClientCounts(
            client_id=client_id,
            ended=0,
            arrived=0,
            waiting=0,
            running=0,
            busy_s=0.0,
            connected=True,
        )
        for name in ("ended", "arrived", "busy_s", *TASK_BYTES):
            more[name] = getattr(old, name) + more.get(name, 0)
        self.counts[client_id] = dataclasses.replace(old, **more)


def uuid_of(name: str) -> str:
    """Return a host's UUID; its name, if that is one."""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


class FakeAgent:
    """One host with one board."""

    def __init__(self, uuid: str, slots: int, board: bool = True) -> None:
        self.uuid = uuid
        self.boots = 1
        self.sequence = 0
        self.slots = [Slot() for _ in range(slots)] if board else []
        self.views: dict[str, objects.SessionView] = {}
        #: What slots are to be programmed with, by number.
        self.wanted: dict[int, str] = {}
        #: Orders that wait for the slots' holders to leave, by number.
        self.next: dict[int, objects.AssignRequest] = {}
        #: Of the secrets of their clients, by number; empty: the worker's.
        self.hashes: dict[int, str] = {}
        #: By group.
        self.desks: dict[str, Desk] = {}
        self._groups: set[str] = set()
        self.link_message: str | None = None
        #: What its idle slots say of where a client can come.
        self.offer: objects.Offer | None = None
        #: By its own clock; None: it does not tell.
        self.sent_at: float | None = None
        self.power_cap_w: float | None = None
        #: Sessions and revisions that its front door asks for.
        self.sessions: dict[str, int] | None = None
        #: Of its board.
        self.shape = "medium"
        self.builtins: dict[str, dict[str, list[str]]] | None = None

    def report(self) -> objects.AgentReport:
        """The whole state, as a heartbeat carries it."""
        self.sequence += 1
        used = {slot.session_id for slot in self.slots}
        for group_id, desk in list(self.desks.items()):
            if desk.order and desk.order.deleted and group_id not in used:
                del self.desks[group_id]
        device = objects.DeviceReport(
            name="board0",
            model="test",
            dma_bytes_per_s=2e9,
            slots=tuple(
                objects.SlotReport(
                    device="board0",
                    slot=number,
                    shape=self.shape,
                    **dataclasses.asdict(slot)
                    | {
                        "last_result": slot.last_result,
                        "previous_result": slot.previous_result,
                        "offer": (
                            self.offer
                            if slot.state != states.SLOT_PREPARING
                            else None
                        ),
                    },
                )
                for number, slot in enumerate(self.slots)
            ),
            builtins=self.builtins,
        )
        return objects.AgentReport(
            host_uuid=self.uuid,
            host_name=self.uuid,
            agent_boot_id=f"{self.boots}-1",
            sequence=self.sequence,
            nic_bytes_per_s=1e9,
            devices=(device,) if self.slots else (),
            driver="test",
            link_message=self.link_message,
            sent_at=self.sent_at,
            power_cap_w=self.power_cap_w,
            sessions=self.sessions,
            groups=tuple(
                objects.GroupReport(
                    group_id=group_id,
                    revision=desk.revision if desk.order else 0,
                    desk_boot_id=desk.boot_id,
                    endpoints=(
                        objects.Endpoint(
                            network="data", address="127.0.0.1", port=4001
                        ),
                    )
                    if desk.has_endpoints
                    else (),
                    certificate_sha256="cd" * 32,
                    clients=desk.clients(),
                )
                for group_id, desk in self.desks.items()
            ),
        )

    def keep_group(self, order: objects.GroupOrder) -> None:
        """A desk follows an order, if there is one."""
        desk = self.desks.get(order.group_id)
        if desk is None or order.revision < desk.revision:
            return
        desk.revision, desk.order = order.revision, order

    def assign(self, request: objects.AssignRequest) -> None:
        slot = self.slots[request.slot]
        if request.generation <= slot.seen_generation:
            return
        if slot.generation is not None:
            if slot.generation == request.after_generation:
                self.next[request.slot] = request
            return
        slot.seen_generation = request.generation
        slot.state = states.SLOT_PREPARING
        slot.input_bytes = 0
        self.wanted[request.slot] = request.accelerator
        self.hashes[request.slot] = request.secret_sha256
        slot.session_id = request.session_id
        slot.generation = request.generation
        slot.previous_result = slot.last_result
        slot.last_result = None
        if request.group_id:
            assert request.group_id == request.session_id
            self._groups.add(request.group_id)
            self.desks.setdefault(request.group_id, Desk())

    def release(self, message: effects.ReleaseSlot, now: float) -> None:
        slot, generation = self.slots[message.slot], message.generation
        waiting = self.next.get(message.slot)
        if waiting is not None and waiting.generation == generation:
            self.give_back(message.slot)
            return
        if slot.generation != generation:
            # A holder is released however old it is.
            if generation <= slot.seen_generation:
                return
            slot.seen_generation = generation
            if slot.generation is not None:
                return
            slot.previous_result = slot.last_result
        self.end(
            message.slot,
            states.CANCELLED,
            message.reason,
            now,
            generation=generation,
            session_id=message.session_id,
        )

    def prepared(
        self, number: int, anew: bool = False
    ) -> objects.Prepared | None:
        """The worker is ready; :returns: what the agent then casts.

        :param anew: make a secret, even if the client has one.
        """
        slot = self.slots[number]
        if slot.state not in (states.SLOT_PREPARING, states.SLOT_READY):
            return None
        slot.state = states.SLOT_READY
        slot.programmed = self.wanted.get(number, "copy")
        if slot.session_id in self._groups:
            # Members have no secret; they join their desk.
            slot.state = states.SLOT_ACTIVE
            return None
        return objects.Prepared(
            host_uuid=self.uuid,
            device="board0",
            slot=number,
            session_id=slot.session_id or "",
            generation=slot.generation or 0,
            secret="5ec7e7" if anew or not self.hashes[number] else "",
            endpoints=(objects.Endpoint("data", "127.0.0.1", 4000),),
            agent_boot_id=f"{self.boots}-1",
            sequence=self.sequence,
        )

    def end(
        self,
        number: int,
        state: str,
        code: str,
        now: float,
        *,
        generation: int | None = None,
        session_id: str | None = None,
    ) -> None:
        """What the slot does ends."""
        slot = self.slots[number]
        slot.last_result = objects.SessionResult(
            session_id=session_id or slot.session_id or "",
            generation=generation or slot.generation or 0,
            state=state,
            code=code,
            finished_at=now,
        )
        slot.state = states.SLOT_IDLE
        slot.session_id = slot.generation = None
        if number in self.next:
            self.assign(self.next.pop(number))

    def give_back(self, number: int) -> None:
        """The holder stays, so that the next order is refused."""
        waiting, slot = self.next.pop(number), self.slots[number]
        slot.seen_generation = max(slot.seen_generation, waiting.generation)

    def restart(self, *, workers_too: bool = False) -> None:
        """A new agent process finds its workers again, or none."""
        self.boots += 1
        self.sequence = 0
        self.next.clear()
        for slot in self.slots:
            slot.previous_result = None
            slot.seen_generation = slot.generation or 0
        for desk in self.desks.values():
            # The desk follows its order still, but the agent knows none.
            desk.order = None
        for slot in self.slots:
            if workers_too:
                slot.state = states.SLOT_IDLE
                slot.seen_generation = 0
                slot.session_id = slot.generation = slot.last_result = None


def hosts(**slots: int) -> list[FakeAgent]:
    """Return hosts by name, each with so many slots; 0: without a board."""
    return [FakeAgent(name, count) for name, count in slots.items()]


class Conductor:
    """An engine, its agents, its database and the messages under way."""

    def __init__(
        self,
        agents: list[FakeAgent],
        *,
        fault_limit: int = 3,
        fair: bool = False,
        max_wait_s: float | None = None,
        preempt_gain: float | None = None,
        policy: elasticity.Policy | None = None,
        make_strategy: Callable[[], base.Strategy] = lambda: strategies.fifo(
            {"slot_choice": "index"}, 0
        ),
        **settings: object,
    ) -> None:
        self.make_strategy = make_strategy
        self.policy = policy
        self.fair = fair
        self.max_wait_s = max_wait_s
        self.preempt_gain = preempt_gain
        self.agents = {agent.uuid: agent for agent in agents}
        self.settings = admission.PoolLimits(
            **{
                "health": health.HealthOptions(
                    accelerator_limit=fault_limit,
                    slot_limit=fault_limit,
                    device_limit=fault_limit,
                )
            }
            | settings
        )
        self.now = 1000.0
        #: By how much that is ahead of pool time.
        self.ahead_s = 0.0
        self.epoch = 0
        self.counts = counts.Counts()
        self.rows: dict[str, dict[object, object]] = {
            name: {} for name in _RECORDS
        }
        self.wire: list[effects.Message] = []
        # While it is away, new sessions are not recorded.
        self.database_away = False
        # By the ids of their rows, with who has their names, if that is why.
        self.unrecorded: dict[
            int, tuple[effects.NewSession, db_api.SessionRecord | None]
        ] = {}
        self._never_recorded: set[int] = set()
        # Of those, the ones that the engine has not yet withdrawn.
        self._left_out: set[int] = set()
        self.requests = 0
        self.boot_conductor()
        self.feed(*(agent.report() for agent in agents))

    def boot_conductor(self, jump_s: float = 0.0) -> None:
        """A new leader takes over what is in the database.

        :param jump_s: by how much its clock is ahead of that of the one
            before.
        """
        self.epoch += 1
        self.now += jump_s
        self.ahead_s += jump_s
        snapshot = self._snapshot().moved(jump_s)
        for name in ("assignments", "hosts", "devices", "faults"):
            for row in getattr(snapshot, name):
                self.rows[name][
                    getattr(row, records.KEYS.get(type(row), "id"))
                ] = row
        self.unrecorded.clear()
        self.database_away = False
        self._never_recorded.clear()
        self._left_out.clear()
        strategy = shared.SharedStrategy(
            self.make_strategy(),
            sharing.ShareOptions(self.fair),
            self.max_wait_s,
            self.preempt_gain,
        )
        self.state = core_state.PoolState(
            strategy,
            first_generation=self.epoch << 32,
            groups=groups.Groups(self.policy) if self.policy else None,
        )
        self.engine = engine.Engine(
            self.state,
            self.settings,
            snapshot,
            "fifo",
            thresholds_bytes=lambda: THRESHOLDS_BYTES,
            counts=self.counts,
            ahead_s=self.ahead_s,
            pasts=past_usage.at_start(
                past.Usage(self.rows["usage"].values()),
                snapshot,
                self.settings.default_budget,
            ),
        )
        self._take(self.engine.start(self.now))

    @property
    def memory(self) -> pools.Pool:
        """What the leader knows."""
        return self.engine.pool

    @property
    def ask(self) -> questions.Questions:
        """What the leader can be asked."""
        return self.engine.questions

    def hardware(self) -> inventory.Inventory:
        """Return the hardware as its rows show it.

        Hosts with short names get UUIDs, see :func:`uuid_of`.
        """
        tables: dict[str, list[Any]] = {
            name: list(self.rows[name].values())
            for name in ("hosts", "devices", "slots", "reservations", "faults")
        }
        tables["hosts"] = [
            dataclasses.replace(row, uuid=uuid_of(row.uuid))
            for row in tables["hosts"]
        ]
        rows = self.rows["sessions"]
        return inventory.Inventory(
            db_api.Inventory(
                **tables,
                holders=[
                    db_api.SlotHolder(
                        slot_id=row.slot_id,
                        accelerator=row.accelerator,
                        phase=row.phase,
                        session_id=rows[row.holder_id].session_id,
                        project_id=rows[row.holder_id].project_id,
                        user_id=rows[row.holder_id].user_id,
                    )
                    for row in self.rows["assignments"].values()
                    if row.holder_kind == states.HELD_BY_SESSION
                ],
            )
        )

    def in_use(self, project_id: str) -> dict[str, int]:
        """Return how much a project uses, as its limits count it."""
        pool, book = self.memory, self.memory.sessions
        return {
            "sessions": sum(
                hold.session.project_id == project_id
                for hold in pool.holds.values()
                if isinstance(hold, sessions.SessionHold)
            ),
            "queued": book.queued[project_id],
            "queued_bytes": book.queued_bytes[project_id],
            "bitstream_bytes": sum(
                one.size_bytes
                for one in pool.catalogue.bitstreams
                if one.project_id == project_id
            ),
            "live_per_user": max(
                collections.Counter(
                    session.user_id
                    for session in book.by_id.values()
                    if session.live and session.project_id == project_id
                ).values(),
                default=0,
            ),
            **pool.groups.in_use(project_id),
        }

    def _snapshot(self) -> db_api.Snapshot:
        tables = {name: list(t.values()) for name, t in self.rows.items()}
        opened = tables.pop("sessions")
        instances = tables.pop("instances")
        return db_api.Snapshot(
            **tables,
            accelerators=[
                db_api.AcceleratorRecord(
                    name="copy",
                    profile=PROFILE.to_primitive()["data"],
                )
            ],
            recent_claims=[(s.host_id, s.claimed_bytes) for s in opened],
            live_sessions=[s for s in opened if s.state in states.LIVE],
            ending_sessions=[
                s
                for s in opened
                if s.finished_at is not None
                and s.id
                in {
                    one.holder_id
                    for one in tables["assignments"]
                    if one.of_session
                }
            ],
            failed_sessions=[
                s
                for s in opened
                if s.state in states.TERMINAL - {states.CLOSED}
                and s.finished_at > self.now - REMEMBERED_S
            ],
            unknown_sessions=[s for s in opened if s.state not in states.ALL],
            instances=[i for i in instances if i.deleted_at is None],
            max_ids=collections.Counter(
                {
                    kind: max(self.rows[table.name], default=0)
                    for kind, table in rows.TABLES.items()
                    if table.name in self.rows
                }
            ),
        )

    def feed(self, *batch: inputs.Input) -> None:
        """Give the engine inputs of this instant."""
        self._take(self.engine.process(batch, self.now))
        self.check()

    def answer(self, wanted: inputs.Change) -> Any:
        """Give the engine a request; return what is answered."""
        self.feed(wanted)
        (found,) = [
            one
            for one in self.sent(effects.Reply)
            if one.future is wanted.future
        ]
        assert not found.failed
        self.wire.remove(found)
        return found.value

    def sent(self, kind: type) -> list[Any]:
        """Return the messages of a kind that are under way."""
        return [one for one in self.wire if isinstance(one, kind)]

    def report(self, *names: str) -> None:
        """Let agents report; no name: all of them."""
        self.feed(*(self.agents[one].report() for one in names or self.agents))

    def tick(self, passed_s: float = 0.0) -> None:
        """Let time pass."""
        self.now += passed_s
        self._take(self.engine.process((), self.now))
        self._take(self.engine.tick(self.now))
        self.check()

    def _take(self, wanted: effects.Effects) -> None:
        for new in wanted.admissions:
            self._admit(new)
        changes = wanted.changes.without_sessions(
            self._left_out.union(wanted.withdrawn)
        )
        for name, table in self.rows.items():
            for row in changes.rows(_RECORDS[name]):
                table[getattr(row, records.KEYS.get(type(row), "id"))] = row
        for name, table in self.rows.items():
            for row in changes.deleted(_RECORDS[name]):
                table.pop(row.id, None)
        for slot_id in changes.released_slots:
            self.rows["assignments"].pop(slot_id, None)
        unknown = {new.session_id for new, _ in self.unrecorded.values()}
        self.wire += map(_news, wanted.at_once)
        self.wire += [
            message
            for message in wanted.after_commit
            if not isinstance(message, effects.PublishSession)
            or message.view.session_id not in unknown
        ]
        for row_id in wanted.withdrawn:
            self.unrecorded.pop(row_id, None)
            self._left_out.discard(row_id)

    def _admit(self, new: effects.NewSession) -> None:
        """Note a new session that the database does not take."""
        name = new.request.project_id, new.request.request_id
        for row in self.rows["sessions"].values():
            if (row.project_id, row.request_id) == name:
                break
        else:
            row = None
        if row or self.database_away:
            self.unrecorded[new.row_id] = new, row
            self._never_recorded.add(new.row_id)
            self._left_out.add(new.row_id)
        if not self.database_away:
            self.engine._opening.recorded_id = new.row_id

    def tell_unrecorded(self) -> None:
        """Tell the engine of all sessions that were not recorded."""
        for new, row in list(self.unrecorded.values()):
            if row is not None:
                self.feed(inputs.Unrecorded(new, row))
        self.memory.outages.database_failing = self.database_away
        self.feed()
        self.memory.outages.database_failing = self.database_away = False

    def check(self) -> None:
        """What holds after every step: core, engine and rows agree."""
        pool_invariants.check(self.state)
        holders.check(self.memory)
        holds = self.memory.holds
        assert not self.counts.reconciled["wrong_move"]
        rows = self.rows["assignments"]
        assert {s: r.generation for s, r in rows.items()} == {
            s: h.generation
            for s, h in holds.items()
            if not isinstance(h, sessions.SessionHold)
            or h.session.row_id not in self._never_recorded
        }
        waiting = {
            job.id for job in self.state.waiting() if job.group_id is None
        }
        for row_id, row in self.rows["sessions"].items():
            session = self.view_or_none(row.request_id, row.project_id)
            if session is None or session.session_id != row.session_id:
                assert row.state not in states.LIVE
                continue
            assert session.state == row.state
            held = [
                hold
                for hold in holds.with_successors()
                if isinstance(hold, sessions.SessionHold)
                and hold.session.row_id == row_id
                and not hold.abandoned
            ]
            assert len(held) <= 1
            if row.state == states.QUEUED:
                assert not held
            if row.state in states.ASSIGNED:
                assert held
                assert held[0].phase.value == row.state
        assert self.ask.queued_count == len(waiting)
        for session in self.memory.sessions.by_id.values():
            if session.secret and session.secret_sha256:
                digest = hashlib.sha256(session.secret.encode())
                assert session.secret_sha256 == digest.hexdigest()
        names = [row.session_id for row in self.rows["sessions"].values()]
        names += [new.session_id for new, _ in self.unrecorded.values()]
        known, _ = self.ask.changed(dict.fromkeys(names, -1))
        counted = collections.Counter(view.state for view in known)
        assert self.ask.now()["sessions"] == counted

    def deliver(self, message: effects.Message) -> None:
        """Carry one message to its agent."""
        match message:
            case effects.AssignSlot(request) | effects.TestSlot(request):
                self.agents[request.host_uuid].assign(request)
            case effects.ReleaseSlot(host_uuid=host_uuid):
                self.agents[host_uuid].release(message, self.now)
            case effects.KeepGroup(host_uuid, order):
                self.agents[host_uuid].keep_group(order)
            case effects.ReissueSecret(host_uuid=host_uuid, slot=number):
                answer = self.agents[host_uuid].prepared(number, anew=True)
                if answer:
                    self.feed(answer)
            case effects.PublishSession(host_uuid, view) if host_uuid:
                views = self.agents[host_uuid].views
                old = views.get(view.request_id)
                if old is None or old.revision <= view.revision:
                    views[view.request_id] = view
            case effects.AskReport(host_uuid):
                self.feed(self.agents[host_uuid].report())

    def deliver_all(self) -> None:
        """Carry all messages, and those that they cause."""
        while self.wire:
            self.deliver(self.wire.pop(0))

    def open(
        self, host: str | None = "a", *, secret: str = "", **changes: object
    ) -> str:
        """Open a session from a host; :returns: the request's id.

        :param secret: what the conductor has made for it.
        """
        self.requests += 1
        wanted = {
            "request_id": f"r{self.requests}",
            "host_uuid": host,
        }
        made = request(**wanted | changes)
        self.feed(opening(made, secret=secret))
        return made.request_id

    def end(
        self, state: str, code: str, number: int = 0, host: str = "a"
    ) -> None:
        """What a slot does ends, and its agent says so."""
        agent = self.agents[host]
        agent.end(number, state, code, self.now)
        self.feed(agent.report())

    def cancel(self, request_id: str) -> None:
        """The client of a session wants it no more."""
        self.feed(
            inputs.Cancel("p", None, request_id, codes.CANCELLED_BY_CLIENT)
        )

    def view(self, request_id: str) -> objects.SessionView:
        """The session as the conductor sees it."""
        view = self.view_or_none(request_id)
        assert view is not None
        return view

    def view_or_none(
        self, request_id: str, project_id: str = "p"
    ) -> objects.SessionView | None:
        """The same, None if it has left the conductor's memory."""
        return find(self.ask, project_id, request_id)

    def settle(self, rounds: int = 12, round_s: float = 3.0) -> None:
        """Let messages, workers and reports do their work for a while."""
        for _ in range(rounds):
            self.deliver_all()
            for agent in self.agents.values():
                for number, slot in enumerate(agent.slots):
                    if slot.state == states.SLOT_PREPARING:
                        answer = agent.prepared(number)
                        if answer:
                            self.feed(answer)
                self.feed(agent.report())
            self.tick(round_s)
