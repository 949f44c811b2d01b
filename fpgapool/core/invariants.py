#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What always holds, stated in code.

Everything that is kept up to date step by step is counted anew here and
compared. Slow; for tests.
"""

import collections
import math
import typing

from fpgapool.core import columns as job_columns
from fpgapool.core import loads as pipe_loads
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import sharing
from fpgapool.core import slots
from fpgapool.core import view as pool_view
from fpgapool.core import waiting


class InvariantError(AssertionError):
    """Something that always holds does not."""


def check(view: pool_view.PoolView) -> None:
    """Check a pool.

    :raises InvariantError: if anything is wrong.
    """
    _check_assignments(view)
    for host in view.slots.hosts.values():
        _check_host(view, host)
    _check_table(view.slots)
    _check_jobs(view)
    for group in view.jobs.all_groups():
        _check_group(view, group)
    _check_lanes(view)
    if view.accounts is not None:
        _check_accounts(view, view.accounts)
    _check_times(view.jobs)
    if view.loads is not None:
        _check_loads(view, view.loads)
    if view.columns is not None:
        _check_columns(view, view.columns)


def _equal(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise InvariantError(f"{what}: {found!r} is not {expected!r}")


def _check_assignments(view: pool_view.PoolView) -> None:
    holders = {
        record.slot_id: job_id
        for job_id, record in view.jobs.records.items()
        if record.slot_id is not None
    }
    assignments = view.slots.assignments
    _equal("holders", holders, {s: a.job_id for s, a in assignments.items()})
    generations = [a.generation for a in assignments.values()]
    _equal("generations", len(set(generations)), len(generations))
    for slot_id, assignment in assignments.items():
        _equal("slot id", assignment.slot_id, slot_id)
        _equal("slot", assignment.slot, view.slots.slots.get(slot_id))
        if assignment.generation >= view.next_generation:
            raise InvariantError("a generation may be used twice")


def _check_host(view: pool_view.PoolView, host: slots.Host) -> None:
    table = view.slots
    held = [
        table.assignments[slot.id]
        for slot in host.slots
        if slot.id in table.assignments
    ]
    _equal("busy", host.busy_count, len(held))
    for assignment in held:
        job = view.record(assignment.job_id).job
        _equal("local", assignment.local, job.host_id == host.id)
    remote_count = sum(not assignment.local for assignment in held)
    _equal("remote", host.remote_count, remote_count)
    up_shapes = collections.Counter(s.shape for s in host.slots if s.up)
    _equal("up shapes", +host.up_shapes, up_shapes)
    for slot in host.slots:
        _check_slot(table, slot)
    idle = [slot for slot in host.slots if table.is_idle(slot.id)]
    _equal("idle", host.idle, idle)
    _equal("has idle slots", host.id in table.idle_hosts, bool(idle))


def _check_slot(table: slots.SlotTable, slot: slots.Slot) -> None:
    _equal("known slot", table.slots.get(slot.id), slot)
    device_id = slot.spec.device_id
    device = next(d for d in slot.host.spec.devices if d.id == device_id)
    up = (
        slot.host.up
        and device.healthy
        and device.enabled
        and device_id not in table.failed_devices
        and slot.id not in table.faulty_slots
    )
    _equal("slot up", slot.up, up)


def _check_table(table: slots.SlotTable) -> None:
    known = [slot for host in table.hosts.values() for slot in host.slots]
    _equal("known slots", set(table.slots), {slot.id for slot in known})
    up = collections.Counter(slot.shape for slot in known if slot.up)
    _equal("up by shape", +table.up_by_shape, up)
    idle = collections.Counter(
        slot.shape for slot in known if table.is_idle(slot.id)
    )
    _equal("idle by shape", +table.idle_by_shape, idle)
    _equal("idle slots", len(list(table.idle_slots())), idle.total())
    _equal("idle in total", table.idle_total, idle.total())
    for host in table.hosts.values():
        for bucket in (
            (shape, is_open)
            for shape in table.up_by_shape
            for is_open in (False, True)
        ):
            ranks = table.hosts_in(bucket)
            listed = ranks is not None and host.rank in ranks
            shape, is_open = bucket
            has_idle = any(slot.shape == shape for slot in host.idle)
            expected = has_idle and host.is_open == is_open
            _equal(f"host {host.id} in {bucket}", listed, expected)


def _check_jobs(view: pool_view.PoolView) -> None:
    jobs = view.jobs
    keys = {r.key for r in jobs.records.values() if r.group is not None}
    queued = list(jobs)
    _equal("waiting", {jobs.records[job.id].key for job in queued}, keys)
    _equal("waiting count", len(jobs), len(keys))
    in_groups = [key for group in jobs.all_groups() for key in group.jobs]
    _equal("in groups", sorted(in_groups), sorted(keys))
    for record in jobs.records.values():
        waits, has_slot = record.group is not None, record.slot_id is not None
        _equal("in one place", waits, not has_slot)


def _check_group(view: pool_view.PoolView, group: waiting.JobGroup) -> None:
    keys = list(group.jobs)
    _equal("count", group.count, len(keys))
    _equal("length", len(group.jobs), len(keys))
    homed = [key for key in keys if view.record(key[-1]).homed]
    _equal("homed", group.homed_count, len(homed))
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
    group: waiting.JobGroup,
    record: waiting.JobRecord,
) -> None:
    _equal("group", record.group, group)
    accelerator = view.accelerators[record.job.accelerator]
    _equal("shapes", group.shapes, accelerator.shapes)
    _equal("avoided", group.avoided, record.avoided)
    host_id = record.job.host_id
    slot_table = view.slots.slots
    others_up = any(
        slot.up
        and accelerator.fits(slot.shape)
        and slot.id not in record.avoided
        for slot in slot_table.values()
    )
    avoided = record.avoided if others_up else frozenset()
    has_home = any(
        slot.up
        and slot.host.id == host_id
        and accelerator.fits(slot.shape)
        and slot.id not in avoided
        for slot in slot_table.values()
    )
    if not (view.jobs.by_host and has_home):
        _equal("homed", record.homed, False)


def _check_lanes(view: pool_view.PoolView) -> None:
    jobs, accounts = view.jobs, view.accounts
    for urgent, lanes in ((False, jobs.lanes), (True, jobs.urgent)):
        for project, lane in lanes.items():
            _equal("lane", (lane.project, lane.urgent), (project, urgent))
            sizes = [group.count for group in lane.groups()]
            _equal("size of a lane", lane.size, sum(sizes))
            _equal("arrivals", lane.arrived, {})
            if not lane.size:
                _equal("empty lane", (project, urgent), (None, False))
    _equal("shown", jobs.shown, jobs.lanes[None])
    for record in jobs.records.values():
        if record.group is None:
            continue
        lane = record.group.lane
        project = record.job.project
        _equal("urgent", lane.urgent, record.urgent)
        _equal(
            "project of a lane",
            lane.project,
            None if accounts is None else accounts.lane_of(project),
        )


def _check_accounts(
    view: pool_view.PoolView, accounts: sharing.Accounts
) -> None:
    sessions = collections.Counter(
        view.record(hold.job_id).job.project
        for hold in view.slots.assignments.values()
    )
    known = {account.project: account for account in accounts.all()}
    _equal(
        "sessions",
        sessions,
        collections.Counter({p: a.sessions for p, a in known.items()}),
    )
    if not accounts.options.fair:
        return
    waiting_projects = set(view.jobs.lanes) - {None}
    _equal(
        "projects that wait",
        {project for project, account in known.items() if account.waits},
        waiting_projects,
    )
    places = sorted(known[str(p)].key for p in waiting_projects)
    _equal("places", accounts.places(), places)
    for account in known.values():
        if not 0 < account.left_bytes <= account.share_bytes:
            raise InvariantError(
                f"{account.project} has {account.left_bytes} bytes left"
            )


def _check_times(jobs: waiting.WaitingJobs) -> None:
    patience: list[ordered.Timer] = []
    limits: list[ordered.Timer] = []
    ageing: list[ordered.Timer] = []
    for job_id, record in jobs.records.items():
        job, waits = record.job, record.group is not None
        if record.patience_s is not None:
            patience.append((record.patience_s, job_id))
            _equal("patience at home", record.homed, True)
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
        slot_id: hold.slot
        for slot_id, hold in view.slots.assignments.items()
        if hold.slot is not None
    }
    _equal("flows", set(loads.flows), set(held))
    counts = collections.Counter[int]()
    carried: dict[int, list[float]] = {}
    for slot_id, flow in loads.flows.items():
        job = view.record(view.slots.assignments[slot_id].job_id).job
        # The ratio is that of when it began.
        ratio = next((cost for _, cost in flow.uses if cost != 1.0), None)
        pipes = [pipe for pipe, _ in flow.uses]
        possible = [
            [pipe for pipe, _ in loads.uses(job, held[slot_id].spec, each)]
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
        group = typing.cast(waiting.JobGroup, record.group)
        _equal("column", record.column, place)
        _equal("size", jobs.sizes[place], job.claimed_bytes)
        _equal("arrival", jobs.arrivals_s[place], job.arrival_s)
        number = int(jobs.kinds[place])
        counts[number] += 1
        kind = job_columns.Kind(group, job.host_id, job.accelerator)
        _equal("kind", columns.kinds[number], kind)
        accelerator = view.accelerators[job.accelerator]
        _equal("peak", columns.peaks[number], accelerator.peak_bytes_per_s)
        ratio = columns.return_ratios[number]
        _equal("ratio", ratio, accelerator.return_ratio)
        home = job.host_id is not None and view.is_home(group, job.host_id)
        _equal("has a home", bool(columns.has_home[number]), home)
    _equal("of each kind", columns.counts.tolist(), counts)
