# SPDX-License-Identifier: Apache-2.0

"""What always holds in the core, stated in code.

Everything that is kept up to date step by step is counted anew here and
compared.
"""

import collections
import math
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import state as pool_state
from fpgapool.core import view as pool_view
from fpgapool.core.calendar import promises
from fpgapool.core.queues import columns as job_columns
from fpgapool.core.queues import queued
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import sharing
from fpgapool.core.queues import waiting
from fpgapool.core.rules import members
from fpgapool.core.rules import session_sets
from fpgapool.core.topology import boards as idle_boards
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.core.topology import slot_table
from fpgapool.core.topology import slots
from fpgapool.strategies.joint import candidates

_Item = typing.TypeVar("_Item", bound=abc.Hashable)


class InvariantError(AssertionError):
    """Something that always holds does not."""


def check(state: pool_state.PoolState) -> None:
    """Check a pool.

    :raises InvariantError: if anything is wrong.
    """
    view, hardware = state.view, state._hardware
    _check_drains(view.slots, hardware.drains, hardware.next_drain_s, view.now)
    _check_assignments(view, state._holders.leaving)
    _check_groups(state._members)
    _check_sets(state._sets, view)
    for host in view.slots.hosts.values():
        _check_host(view, host)
    _check_table(view.slots)
    _check_reservations(view)
    _check_jobs(view, state._sets.of_job)
    for group in view.jobs.all_groups():
        _check_group(view, group)
    _check_lanes(view)
    if view.accounts is not None:
        _check_accounts(view, view.accounts)
    _check_times(view.jobs)
    if view.loads is not None:
        _check_loads(view, view.loads)
    if isinstance(view.kinds, job_columns.Columns):
        _check_columns(view, view.kinds)
    if isinstance(view.kinds, candidates.Candidates):
        _check_candidates(view, view.kinds)
    if view.boards is not None:
        _check_boards(view, view.boards)


def _equal(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise InvariantError(f"{what}: {found!r} is not {expected!r}")


def _count(items: abc.Iterable[_Item]) -> dict[_Item, int]:
    """As a Counter, which takes much longer to make and to compare."""
    counts: dict[_Item, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts


def _nonzero(counts: abc.Mapping[_Item, int]) -> dict[_Item, int]:
    return {item: count for item, count in counts.items() if count}


def _check_assignments(
    view: pool_view.PoolView, leaving: abc.Mapping[int, slots.Hold]
) -> None:
    gone = {id(hold.record) for hold in leaving.values()}
    holders = {
        record.slot_id: job_id
        for job_id, record in view.jobs.records.items()
        if record.slot_id is not None and id(record) not in gone
    }
    assignments = view.slots.assignments
    for slot_id, hold in leaving.items():
        successor = assignments[slot_id]
        if successor.generation <= hold.generation:
            raise InvariantError(f"slot {slot_id}: an older successor")
        if hold.record is None or hold.record.slot_id != slot_id:
            raise InvariantError(f"slot {slot_id}: who leaves has no job")
        slot = view.slots.slots.get(slot_id)
        if slot is not None:
            is_local = hold.record.job.is_local_to(slot.host.id)
            _equal("local of who leaves", hold.local, is_local)
    jobs = {
        slot_id: hold.record.job.id
        for slot_id, hold in assignments.items()
        if hold.record is not None
    }
    _equal("holders", holders, jobs)
    kept = {
        slot_id: view.jobs.records[job_id] for slot_id, job_id in jobs.items()
    }
    _equal("jobs of holders", kept, {s: assignments[s].record for s in jobs})
    names = [h.holder for h in assignments.values() if h.group_id is None]
    _equal("slots of a holder", len(set(names)), len(names))
    generations = [a.generation for a in assignments.values()]
    _equal("generations", len(set(generations)), len(generations))
    for slot_id, assignment in assignments.items():
        _equal(
            "slot id, slot",
            (assignment.slot_id, assignment.slot),
            (slot_id, view.slots.slots.get(slot_id)),
        )
        if assignment.generation >= view.next_generation:
            raise InvariantError("a generation may be used twice")


def _check_groups(all_members: members.Members) -> None:
    """Groups have as many slots, and wait for as many, as they should."""
    view, sizes = all_members._view, all_members._sizes
    by_group: dict[int, dict[int, slots.Hold]] = {}
    for slot_id, hold in view.slots.assignments.items():
        if hold.group_id is not None and slot_id not in all_members._orphans:
            by_group.setdefault(hold.group_id, {})[slot_id] = hold
    known = all_members.groups
    _equal(
        "slots of groups",
        by_group,
        {group_id: one.holds for group_id, one in known.items() if one.holds},
    )
    waiting = {
        record.job.id
        for record in view.jobs.records.values()
        if record.group is not None and record.job.group_id is not None
    }
    _equal(
        "jobs of groups",
        waiting - all_members._sets.leading.keys(),
        {one.job.id for group in known.values() for one in group.waiting},
    )
    for group_id, group in known.items():
        status = sizes.get(group_id)
        if status is None:
            raise InvariantError(f"group {group_id} is gone")
        phases = [hold.phase for hold in group.holds.values()]
        under_way = phases.count(model.Phase.PREPARING)
        _equal("under way", status.under_way, under_way)
        _equal("members", status.members, len(phases) - under_way)
        _equal("reported", group.reported, (status.wanted, status.state))
        if status.gathers:
            _check_first(all_members, group)
        if group.group.accelerator in view.accelerators:
            asked = sum(
                move.receiver == group_id and move.donor is None
                for move in sizes.moves()
            )
            # A group that rests asks for no more.
            if group.retry_s <= view.now or len(group.waiting) > asked:
                _equal("waits for", len(group.waiting), asked)


def _check_first(
    all_members: members.Members, group: members.GroupSlots
) -> None:
    """A group that waits for its first slots has all of them, or none."""
    spec = group.group
    one = all_members._sets.find(spec.project, spec.together.set_id)
    count = len(group.holds)
    if count not in (0, spec.min_size):
        raise InvariantError(f"group {spec.id} has {count} of its first slots")
    if one is None and group.retry_s > all_members._view.now:
        _equal("slots of a group that pauses", count, 0)
        return
    if one is None:
        _equal(
            "its accelerator and slots",
            (False, 0),
            (spec.accelerator in all_members._view.accelerators, count),
        )
        return
    phases = {hold.phase for hold in group.holds.values()}
    _equal("not ready", phases <= {model.Phase.PREPARING}, True)
    _equal("is starting", one.is_starting, bool(count))
    _equal("asks for no others", group.waiting, [])


def _check_host(view: pool_view.PoolView, host: slots.Host) -> None:
    table = view.slots
    busy_count = remote_count = 0
    idle = []
    up_shapes: dict[str, int] = {}
    devices = {device.id: device for device in host.spec.devices}
    for slot in host.slots:
        assignment = table.assignments.get(slot.id)
        if assignment is not None:
            busy_count += 1
            remote_count += not assignment.local
            record = assignment.record
            is_local = record is None or record.job.is_local_to(host.id)
            _equal("local", assignment.local, is_local)
        if slot.up:
            up_shapes[slot.shape] = up_shapes.get(slot.shape, 0) + 1
        if table.is_idle(slot.id):
            idle.append(slot)
        _check_slot(table, slot, devices[slot.spec.device_id])
    _equal(
        "busy, remote, up shapes, idle, has idle slots",
        (
            host.busy_count,
            host.remote_count,
            _nonzero(host.up_shapes),
            host.idle,
            host.id in table.idle_hosts,
        ),
        (busy_count, remote_count, up_shapes, idle, bool(idle)),
    )


def _check_slot(
    table: slot_table.SlotTable, slot: slots.Slot, device: model.DeviceSpec
) -> None:
    # Together: a call for each of them takes longer than the rest.
    slot_id, owner = slot.id, slot.reserved_for
    up = (
        slot.host.up
        and device.healthy
        and device.id not in table.failed_devices
        and device.id not in table.barred_devices
        and slot_id not in table.faulty_slots
    )
    shape = slot.spec.shape
    own = table.reserved_idle.get(owner or "", {})
    waits = slot.is_usable and slot_id not in table.assignments
    _equal(
        "known slot, usable, up, reserved for, shape, idle for its own",
        (
            table.slots.get(slot_id),
            slot.is_usable,
            slot.up,
            owner,
            slot.shape,
            slot_id in own,
        ),
        (
            slot,
            up,
            up and owner is None,
            table.reserved.get(slot_id),
            slots.kept_shape(shape) if slot.kept else shape,
            waits and not slot.up,
        ),
    )


def _check_table(table: slot_table.SlotTable) -> None:
    known = [slot for host in table.hosts.values() for slot in host.slots]
    _equal("known slots", set(table.slots), {slot.id for slot in known})
    up = _count(slot.shape for slot in known if slot.up)
    _equal("up by shape", _nonzero(table.up_by_shape), up)
    barred = {}
    if table.barred_devices:
        barred = _count(
            slot.shape for slot in known if _is_only_barred(table, slot)
        )
    _equal("barred by shape", _nonzero(table.barred_by_shape), barred)
    idle = _count(slot.shape for slot in known if table.is_idle(slot.id))
    _equal("idle by shape", _nonzero(table.idle_by_shape), idle)
    idle_total = sum(idle.values())
    _equal("idle slots", len(list(table.idle_slots())), idle_total)
    _equal("idle in total", table.idle_total, idle_total)
    hosts = [
        (host.id, host.rank, host.is_open, {slot.shape for slot in host.idle})
        for host in table.hosts.values()
    ]
    for shape in table.up_by_shape:
        for is_open in (False, True):
            ranks = table.hosts_in((shape, is_open)) or ()
            listed = [host_id for host_id, rank, *_ in hosts if rank in ranks]
            expected = [
                host_id
                for host_id, _rank, open_, shapes in hosts
                if open_ == is_open and shape in shapes
            ]
            _equal("hosts with an idle slot", listed, expected)


def _is_only_barred(table: slot_table.SlotTable, slot: slots.Slot) -> bool:
    """Whether a slot would be up but for an operator."""
    device_id = slot.spec.device_id
    return (
        slot.host.up
        and slot.reserved_for is None
        and device_id in table.barred_devices
        and any(
            d.id == device_id and d.healthy for d in slot.host.spec.devices
        )
        and device_id not in table.failed_devices
        and slot.id not in table.faulty_slots
    )


def _check_reservations(view: pool_view.PoolView) -> None:
    book, table = view.reservations, view.slots
    _equal("unsettled", book.unsettled, set())
    flat = {
        slot_id: instance_id
        for bound in book.bound.values()
        for slot_id, instance_id in bound.items()
    }
    by_calendar = {
        slot_id: owner
        for slot_id, owner in book.promises.owners.items()
        if slot_id in table.slots
    }
    _equal("reserved once", table.reserved, {**flat, **by_calendar})
    _equal("reserved for one", by_calendar.keys() & flat.keys(), set())
    for slot_id, owner in by_calendar.items():
        hold = table.assignments.get(slot_id)
        # Nobody is taken from a silent host.
        if (
            hold is not None
            and hold.record is not None
            and not hold.revoked
            and table.slots[slot_id].host.up
        ):
            _equal("owner", _owner(hold.record.job), owner)
    _equal("reserved slots", sum(map(len, book.bound.values())), len(flat))
    _equal("known since", set(book.since), set(flat))
    for host in table.hosts.values():
        for device in host.spec.devices:
            _check_device(view, device)
    for slot_id, since in book.since.items():
        hold = table.assignments.get(slot_id)
        if hold is None or hold.record is None:
            continue
        if hold.generation >= since:
            owner = hold.record.job.instance_id
            _equal("given to its own", owner, flat[slot_id])
    for instance_id, queues in view.jobs.of_instances.items():
        for name, queue in queues.items():
            _check_queue(view, instance_id, name, queue)
    waiting_keys = sorted(
        record.key
        for record in view.jobs.records.values()
        for wanted in (record.job.instance_id, _owner(record.job))
        if record.group is not None
        and wanted is not None
        and (wanted == record.job.instance_id or wanted in view.jobs.owners)
    )
    _equal("owners", view.jobs.owners, set(book.promises.owners.values()))
    _equal(
        "jobs of instances",
        sorted(
            key
            for queues in view.jobs.of_instances.values()
            for queue in queues.values()
            for key in queue
        ),
        waiting_keys,
    )


def _owner(job: model.Job) -> str:
    """The owner for whom slots are reserved by calendar, if any are."""
    return promises.owner_of(job.project, job.accelerator)


def _check_device(view: pool_view.PoolView, device: model.DeviceSpec) -> None:
    """Reservations have what there is, and nothing is kept beyond them."""
    book, table = view.reservations, view.slots
    calendar = book.promises.owners.keys() | book.promises.until_s.keys()
    for slot_id in {slot.id for slot in device.slots} & calendar:
        _equal(
            "kept until",
            table.slots[slot_id].kept,
            slot_id in book.promises.until_s,
        )
    own = [
        table.slots[slot.id]
        for slot in device.slots
        if slot.id not in calendar
    ]
    bound = book.bound.get(device.id, {})
    wanted = book.wanted.get(device.id, {})
    if not bound.keys() <= {slot.id for slot in own}:
        raise InvariantError(f"device {device.id} has reserved others' slots")
    for instance_id, count in _count(bound.values()).items():
        if count > wanted.get(instance_id, 0):
            raise InvariantError(f"{instance_id} has {count} slots reserved")
    is_short = len(bound) < sum(wanted.values())
    if is_short and device.id not in book.short:
        raise InvariantError(f"device {device.id} is not known to be short")
    if is_short and any(
        slot.id not in bound
        and slot.works
        and slot.id not in table.assignments
        for slot in own
    ):
        raise InvariantError(f"a slot of device {device.id} is not reserved")
    kept = [slot for slot in own if slot.kept]
    left = book.reservable.get(device.id, 0) - sum(wanted.values())
    free = [
        slot
        for slot in own
        if slot.id not in bound and slot.id not in table.faulty_slots
    ]
    _equal("kept slots", len(kept), min(max(left, 0), len(free)))
    if any(slot.id in bound for slot in kept):
        raise InvariantError(f"device {device.id} keeps a reserved slot")


def _check_queue(
    view: pool_view.PoolView,
    instance_id: str,
    accelerator: str,
    queue: ordered.KeyQueue,
) -> None:
    """No job waits for a slot that it could have at once."""
    keys = list(queue)
    _equal("queue of an instance", bool(keys), True)
    idle = view.slots.reserved_idle.get(instance_id, {})
    for key in keys:
        record = view.record(key[-1])
        job = record.job
        if instance_id != _owner(job):
            _equal("instance", job.instance_id, instance_id)
        _equal("accelerator", job.accelerator, accelerator)
        if view.is_job_held(job):
            continue
        for slot in filter(view.power.allows, idle.values()):
            avoiding = record.group.avoiding if record.group else ()
            if (
                slot.id not in avoiding
                and view.accelerators[accelerator].fits(slot.spec.shape)
                and view.reservations.promises.allows(job, slot)
            ):
                raise InvariantError(f"job {job.id} waits for slot {slot.id}")


def _check_sets(
    sets: session_sets.SessionSets, view: pool_view.PoolView
) -> None:
    """A set has all its slots or none, and waits in one place."""
    records, held = view.jobs.records, view.slots.assignments
    places = []
    for one in dict.fromkeys(sets.of_job.values()):
        leader = one.leader.job.id
        for record in one.records:
            job_id = record.job.id
            _equal(f"job {job_id}", records.get(job_id), record)
            _equal(f"the set of job {job_id}", sets.of_job[job_id], one)
            has_slot = any(
                hold.record is record
                for hold in held.values()
                if hold.slot_id == record.slot_id
            )
            _equal(f"job {job_id} has a slot", has_slot, one.is_starting)
            if record is not one.leader:
                _equal(f"queue of job {job_id}", record.group, None)
        leads = leader in sets.leading
        _equal(f"job {leader} leads", leads, one.leader.group is not None)
        _equal(
            f"places of the set of job {leader}",
            [
                leads,
                one in sets.turns.waiting,
                one in sets._gathering.values(),
                one.is_starting,
            ].count(True),
            1,
        )
        if not one.is_starting:
            places.append(one)
    _equal(
        "sets that wait",
        {
            *sets.turns.waiting,
            *sets.leading.values(),
            *sets._gathering.values(),
        },
        set(places),
    )


def _check_drains(
    table: slot_table.SlotTable,
    drains: abc.Mapping[model.DeviceId, float],
    next_s: float,
    now: float,
) -> None:
    """Check the devices that are to be drained.

    :param now: the time of the last step.
    :raises InvariantError: if anything is wrong.
    """
    later = [due_s for due_s in drains.values() if due_s > now]
    _equal("next deadline", next_s, min(later, default=math.inf))
    for device_id, due_s in drains.items():
        _equal("barred", device_id in table.barred_devices, True)
        held = table.held_on(device_id)
        _equal("somebody is left", bool(held), True)
        for slot_id in held:
            hold = table.assignments[slot_id]
            if hold.record is None:
                continue
            if due_s <= now and hold.slot is not None and hold.slot.host.up:
                _equal("called back", bool(hold.revoked), True)


def _check_jobs(
    view: pool_view.PoolView, in_sets: abc.Container[model.JobId]
) -> None:
    jobs = view.jobs
    keys = {r.key for r in jobs.records.values() if r.group is not None}
    queued = list(jobs)
    _equal("waiting", {jobs.records[job.id].key for job in queued}, keys)
    _equal("waiting count", len(jobs), len(keys))
    in_groups = [key for group in jobs.all_groups() for key in group.jobs]
    _equal("in groups", sorted(in_groups), sorted(keys))
    for record in jobs.records.values():
        if record.job.id in in_sets:
            continue
        waits, has_slot = record.group is not None, record.slot_id is not None
        _equal("in one place", waits, not has_slot)


def _check_group(view: pool_view.PoolView, group: queued.JobGroup) -> None:
    keys = list(group.jobs)
    homed = [key for key in keys if view.record(key[-1]).homed]
    _equal(
        "count, length, homed",
        (group.count, len(group.jobs), group.homed_count),
        (len(keys), len(keys), len(homed)),
    )
    if view.jobs.by_host:
        roaming = [key for key in keys if not view.record(key[-1]).homed]
        _equal("roaming", list(group.roaming), roaming)
    by_host: dict[model.HostId, list[ordered.Key]] = {}
    for key in keys:
        record = view.record(key[-1])
        _check_place(view, group, record)
        if view.jobs.by_host and record.job.host_id is not None:
            by_host.setdefault(record.job.host_id, []).append(key)
    listed = {host_id: list(keys) for host_id, keys in group.by_host.items()}
    _equal("by host", listed, by_host)
    homes = {host_id for host_id in by_host if view.is_home(group, host_id)}
    _equal("homes", group.homes, homes)


def _check_place(
    view: pool_view.PoolView,
    group: queued.JobGroup,
    record: queued.JobRecord,
) -> None:
    accelerator = view.accelerators[record.job.accelerator]
    _equal(
        "group, shapes, avoided",
        (record.group, group.shapes, group.avoided),
        (group, view.shapes_for(accelerator), record.avoided),
    )
    if record.homed is False:
        return
    host_id = record.job.host_id
    slot_table = view.slots.slots
    others_up = any(
        slot.up
        and group.fits_shape(slot.shape)
        and accelerator.fits(slot.spec.shape)
        and slot.id not in record.avoided
        for slot in slot_table.values()
    )
    avoided = record.avoided if others_up else frozenset()
    has_home = any(
        slot.up
        and slot.host.id == host_id
        and group.fits_shape(slot.shape)
        and accelerator.fits(slot.spec.shape)
        and slot.id not in avoided
        for slot in slot_table.values()
    )
    if not (view.jobs.by_host and has_home):
        _equal("homed", record.homed, False)


def _check_lanes(view: pool_view.PoolView) -> None:
    jobs, accounts = view.jobs, view.accounts
    for urgent, lanes in ((False, jobs.lanes), (True, jobs.urgent)):
        for project, first in lanes.items():
            for priority, lane in first.ranked():
                _equal("lane", (lane.project, lane.urgent), (project, urgent))
                sizes = [group.count for group in lane.groups()]
                _equal("size of a lane", lane.size, sum(sizes))
                _equal("arrivals", lane.arrived, {})
                _equal("users", lane.users, first.users)
                if not lane.size and (priority or not first.ranks):
                    _equal("empty lane", (project, urgent), (None, False))
            if first.users is not None:
                _equal("main lane", first.size, 0)
    mains = (*jobs.lanes.values(), *jobs.urgent.values())
    _equal("ranked", jobs.ranked, sum(len(lane.ranks) for lane in mains))
    _equal("shown", jobs.shown, jobs.lanes[None])
    for record in jobs.records.values():
        if record.group is None:
            continue
        lane = record.group.lane
        project = record.job.project
        _equal("urgent", lane.urgent, record.urgent)
        if lane.users is not None:
            lanes = jobs.urgent if lane.urgent else jobs.lanes
            rank = (0 if lane.urgent else record.job.priority, record.job.user)
            _equal("rank", lanes[lane.project].ranks[rank], lane)
        elif not lane.urgent and lane.project is not None:
            ranked = dict(jobs.lanes[lane.project].ranked())
            _equal("rank", ranked[record.job.priority], lane)
        _equal(
            "project of a lane",
            lane.project,
            None if accounts is None else accounts.lane_of(project),
        )


def _check_accounts(
    view: pool_view.PoolView, accounts: sharing.Accounts
) -> None:
    sessions = _count(
        hold.record.job.project
        for hold in view.slots.assignments.values()
        if hold.record is not None
    )
    known = {account.project: account for account in accounts.all()}
    _equal(
        "sessions",
        sessions,
        _nonzero({p: len(a.holds) for p, a in known.items()}),
    )
    _check_users(view, accounts)
    if not accounts.options.fair:
        return
    waiting_projects = set(view.jobs.lanes) - {None}
    _equal(
        "projects that wait",
        {project for project, account in known.items() if account.waits},
        waiting_projects,
    )
    places = sorted(known[str(p)].key for p in waiting_projects)
    _equal("places", list(accounts._places), places)
    _check_tree(accounts)
    for account in known.values():
        if not 0 < account.left_bytes <= account.share_bytes:
            raise InvariantError(
                f"{account.project} has {account.left_bytes} bytes left"
            )


def _check_users(view: pool_view.PoolView, accounts: sharing.Accounts) -> None:
    """Users are told apart where they should be, and counted correctly."""
    for main in (*view.jobs.lanes.values(), *view.jobs.urgent.values()):
        if main.project is not None:
            users = accounts.users_of(main.project)
            _equal(f"users of {main.project}", main.users, users)
    for project, users in accounts.users.items():
        _equal("rule", users.rule, accounts.user_rule(project))
        held = _count(
            hold.record.job.user
            for hold in accounts.holds_of(project)
            if hold.record is not None
        )
        _equal(f"slots of the users of {project}", users._slots, held)
        main = view.jobs.lanes.get(project)
        ranks = set() if main is None else set(main.ranks)
        _equal(
            f"users of {project} in turn",
            sorted(users.in_turn()),
            sorted(rank for rank in ranks if not users.is_full(rank[1])),
        )
        urgent = view.jobs.urgent.get(project)
        lanes = len(ranks) + (0 if urgent is None else len(urgent.ranks))
        _equal(f"lanes of the users of {project}", users.lanes, lanes)
        _equal(f"users of {project} are idle", users.is_idle, False)


def _check_tree(accounts: sharing.Accounts) -> None:
    tree = accounts._tree
    if tree is None:
        return
    active = collections.Counter[str]()
    waits = collections.Counter[str]()
    for account in accounts.all():
        node = tree.above(account.project)
        _equal("node", account.node, node)
        active[node.name] += tree.units(account.project)
        each: share_tree.Node | None = node
        while each is not None:
            waits[each.name] += account.waits
            each = each.parent
    for node in sorted(tree._nodes.values(), key=lambda one: -_depth(one)):
        what = f"below {node.name}"
        _equal(f"active {what}", node.active, active[node.name])
        _equal(f"waits {what}", node.waits, waits[node.name])
        if node.active and node.parent is not None:
            active[node.parent.name] += node.units
        if not 0 < node.left_bytes <= node.share_bytes:
            raise InvariantError(f"{what} {node.left_bytes} bytes are left")


def _depth(node: share_tree.Node) -> int:
    return 0 if node.parent is None else 1 + _depth(node.parent)


def _check_times(jobs: waiting.WaitingJobs) -> None:
    patience: list[ordered.Timer] = []
    limits: list[ordered.Timer] = []
    ageing: list[ordered.Timer] = []
    for job_id, record in jobs.records.items():
        job, waits = record.job, record.group is not None
        if record.patience_s is not None:
            patience.append((record.patience_s, job_id))
            group = record.group
            if group is None or job.host_id not in group.homes:
                raise InvariantError(f"{job_id} has no host to wait for")
        limited = (
            waits
            and job.wait_timeout_s is not None
            and math.isfinite(job.arrival_s + job.wait_timeout_s)
        )
        _equal("wait limit", record.limit_s is not None, limited)
        if record.limit_s is not None:
            limits.append((record.limit_s, job_id))
        if record.urgent_s is not None:
            ageing.append((record.urgent_s, job_id))
            _equal("urgent in time", (waits, record.urgent), (True, False))
    for what, timers, expected in (
        ("patience", jobs.patience, patience),
        ("wait limits", jobs.limits, limits),
        ("ageing", jobs.ageing, ageing),
    ):
        _equal(what, list(timers), sorted(expected))
        if jobs.quiet_until_s > timers.first_s():
            raise InvariantError(f"{what}: not quiet until the first")


def _check_loads(view: pool_view.PoolView, loads: pipe_loads.Loads) -> None:
    held = {
        slot_id: (hold.slot, hold.record.job)
        for slot_id, hold in view.slots.assignments.items()
        if hold.slot is not None and hold.record is not None
    }
    _equal("flows", set(loads.flows), set(held))
    counts = collections.Counter[int]()
    carried: dict[int, list[float]] = {}
    for slot_id, flow in loads.flows.items():
        slot, job = held[slot_id]
        # The ratio is that of when it began.
        ratio = next((cost for _, cost in flow.uses if cost != 1.0), None)
        pipes = [pipe for pipe, _ in flow.uses]
        possible = [
            [pipe for pipe, _ in loads.uses(job, slot.spec, each)]
            for each in (0.0, 1.0 if ratio is None else ratio)
        ]
        if pipes not in possible:
            raise InvariantError(f"slot {slot_id} uses {pipes}")
        counts.update(pipes)
        for pipe, cost in flow.uses:
            carried.setdefault(pipe, []).append(cost * flow.bytes_per_s)
    for pipe, (count, load) in enumerate(
        zip(loads.counts.tolist(), loads.loads.tolist(), strict=True)
    ):
        _equal(f"flows in pipe {pipe}", count, counts[pipe])
        expected = math.fsum(carried.get(pipe, []))
        if not math.isclose(load, expected, rel_tol=1e-6, abs_tol=1e-3):
            raise InvariantError(f"pipe {pipe}: {load}, not {expected}")
    for host in view.slots.hosts.values():
        nic = host.spec.nic_bytes_per_s
        for pipe in (loads.egress(host.id), loads.ingress(host.id)):
            _equal("NIC", loads.capacities[pipe], nic if nic > 0 else math.inf)


def _check_columns(
    view: pool_view.PoolView, columns: job_columns.Columns
) -> None:
    jobs = columns.jobs
    ids = {job.id for job in view.jobs}
    _equal("in columns", {r.job.id for r in jobs.records}, ids)
    _equal("columns", (jobs.count, len(jobs.records)), (len(ids),) * 2)
    counts = [0] * len(columns.kinds)
    for place, record in enumerate(jobs.records):
        job = record.job
        group = typing.cast(queued.JobGroup, record.group)
        _equal("column", record.column, place)
        _equal("size", jobs.sizes[place], job.claimed_bytes)
        _equal("arrival", jobs.arrivals_s[place], job.arrival_s)
        _equal("homed", bool(jobs.homed[place]), record.homed)
        number = int(jobs.kinds[place])
        counts[number] += 1
        kind = job_columns.Kind(group, job.host_id, job.accelerator)
        _equal("kind", columns.kinds[number], kind)
        _equal("group", columns.group_numbers[number], columns.groups[group])
        accelerator = view.accelerators[job.accelerator]
        _equal("peak", columns.peaks[number], accelerator.peak_bytes_per_s)
        ratio = columns.return_ratios[number]
        _equal("ratio", ratio, accelerator.return_ratio)
        home = job.host_id is not None and view.is_home(group, job.host_id)
        _equal("has a home", bool(columns.has_home[number]), home)
    _equal("of each kind", columns.counts.tolist(), counts)
    _equal("groups", set(columns.groups), {r.group for r in jobs.records})


def _check_candidates(
    view: pool_view.PoolView, kinds: candidates.Candidates
) -> None:
    queues: dict[tuple[typing.Any, ...], set[model.JobId]] = {}
    for job in view.jobs:
        record = view.record(job.id)
        key = (record.group, job.host_id, job.accelerator)
        queues.setdefault(key, set()).add(job.id)
    found = {
        (kind.group, kind.host_id, kind.accelerator): {
            record.job.id for record in kind.jobs.jobs()
        }
        for kind in kinds.all()
    }
    _equal("jobs by kind", found, queues)
    of_group: dict[queued.JobGroup, dict[typing.Any, candidates.Kind]] = {}
    on_host: dict[model.HostId, set[candidates.Kind]] = {}
    for kind in kinds.all():
        key = (kind.host_id, kind.accelerator)
        of_group.setdefault(kind.group, {})[key] = kind
        if kind.host_id is not None:
            on_host.setdefault(kind.host_id, set()).add(kind)
    _equal("kinds of groups", kinds.of_group, of_group)
    hosts = {host_id: set(held) for host_id, held in kinds.on_host.items()}
    _equal("kinds on hosts", hosts, on_host)
    packed = {
        (group, *key): set(pack.kinds)
        for group, packs in kinds.packs.items()
        for key, pack in packs.items()
    }
    expected: dict[tuple[typing.Any, ...], set[candidates.Kind]] = {}
    for kind in kinds.all():
        _check_kind(view, kinds, kind)
        if kind.pack is not None:
            pack = (kind.group, kind.accelerator, kind.pack.may)
            expected.setdefault(pack, set()).add(kind)
    _equal("packs", packed, expected)


def _check_kind(
    view: pool_view.PoolView,
    kinds: candidates.Candidates,
    kind: candidates.Kind,
) -> None:
    host_id, group = kind.host_id, kind.group
    loads = typing.cast(pipe_loads.Loads, view.loads)
    for record in kind.jobs.jobs():
        _equal("place", kind.jobs.records[record.column], record)
    home = host_id is not None and view.is_home(group, host_id)
    egress = pipe_loads.NOWHERE if host_id is None else loads.egress(host_id)
    accelerator = view.accelerators[kind.accelerator]
    peaks = accelerator.peaks_bytes_per_s.values()
    rates = [accelerator.peak_bytes_per_s, *peaks]
    _equal(
        "has home, egress, peak, ratio",
        (kind.has_home, kind.egress, kind.peak_max, kind.ratio),
        (home, egress, max(rates), accelerator.return_ratio),
    )
    time_s = view.now - kinds._base_s
    if kind in kinds._outdated or kind.due_s <= time_s:
        return
    first = kind.leader()
    _equal("first", kind.first, first)
    pack = typing.cast(candidates.Pack, kind.pack)
    _equal("row", pack.kinds[kind.row], kind)
    may = candidates.STAYING if first.homed else candidates.LEAVING
    _equal("may", pack.may, may if home else candidates.HOMELESS)
    size_bytes, wait_s = (
        first.job.claimed_bytes,
        view.now - first.job.arrival_s,
    )
    waited = max(wait_s, 0.0) * kind.peak / size_bytes
    urgency = (1.0 + kinds._ageing * waited) / size_bytes**kinds._size_power
    if kind.urgency(view.now) < urgency * (1 - 1e-9):
        raise InvariantError(
            f"urgency is {urgency}, not {kind.urgency(view.now)}"
        )
    if not kind.listed_s <= kind.due_s <= kind.jobs.until_s:
        raise InvariantError(f"{kind.due_s} is listed as {kind.listed_s}")
    _check_row(pack, kind, view.now)


def _check_row(
    pack: candidates.Pack, kind: candidates.Kind, now: float
) -> None:
    row = kind.row
    _equal(
        "row of a pack",
        (
            pack.arrivals_s[row],
            pack.fresh[row],
            pack.slopes[row],
            pack.per_byte[row],
            pack.egress[row],
            pack.ingress[row],
        ),
        (
            kind.arrival_s,
            kind.fresh,
            kind.slope,
            kind.per_byte,
            kind.egress,
            kind.ingress,
        ),
    )
    waited = (now - kind.arrival_s) * kind.peak * kind.per_byte
    urgency = kind.urgency(now)
    cost = 1.0 / kind.peak_max + pack._delay_s * kind.per_byte
    for what, bound, value in (
        ("waited", pack.longest.at(now), waited),
        ("urgency", pack._urgent.at(now), urgency),
        ("value", pack._programmed.at(now), urgency / cost),
    ):
        if value > bound * (1 + 1e-9):
            raise InvariantError(f"{what}: {value} is above {bound}")


def _check_boards(
    view: pool_view.PoolView, boards: idle_boards.Boards
) -> None:
    loads = typing.cast(pipe_loads.Loads, view.loads)
    expected: dict[tuple[model.DeviceId, str], list[slots.Slot]] = {}
    for slot in view.slots.idle_slots():
        key = (slot.spec.device_id, slot.shape)
        expected.setdefault(key, []).append(slot)
    found = [target for target in boards.targets if target.slots]
    _equal("boards", len(found), len(expected))
    for target in found:
        slot, number = target.slots[0], target.number
        idle = expected[slot.spec.device_id, target.shape]
        _equal("idle slots of a board", target.slots, idle)
        _equal("host", boards.host_ids[number], slot.host.id)
        _equal("DMA", boards.dma[number], loads.dma(slot.spec.device_id))
        _equal("in", boards.ingress[number], loads.ingress(slot.host.id))
        _equal("out", boards.egress[number], loads.egress(slot.host.id))
        _equal("slots", boards.slot_counts[number], slot.device_slots)
    _equal("boards with idle slots", boards.with_idle(), found)
