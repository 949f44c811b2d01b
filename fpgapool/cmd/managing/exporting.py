# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-manage session export``: kept sessions as a scenario file.

``fpgapool-sim advise`` replays them. It needs no database, so it also runs
where no part of a pool does.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import itertools
import statistics
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec
import numpy as np
from oslo_config import cfg

from fpgapool import objects
from fpgapool.bitstreams import library
from fpgapool.common import exception
from fpgapool.conductor.runtime import strategy_loading
from fpgapool.db import api as db_api
from fpgapool.db import inventory as db_inventory
from fpgapool.db import migration
from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import schedules
from fpgapool.vocabulary import names
from fpgapool.vocabulary import platforms
from fpgapool.vocabulary import scheduling
from fpgapool.vocabulary import states

_PAGE = 1000


def export(database: db_api.Database, args: argparse.Namespace) -> int:
    """Write the file.

    :raises exception.ConfigurationError: if there is nothing to replay, or the
        file cannot be written.
    """
    migration.require_newest(database.engine)
    ended = list(itertools.islice(_ended(database), args.newest))
    made = scenario(
        ended,
        db_inventory.Inventory.load(database),
        library.Library.load(database).profiles,
        args.conf,
        pseudonyms=args.pseudonyms,
    )
    try:
        scenario_files.check_all(made, str(args.file))
        scenario_files.write(made, args.file)
    except errors.InputError as error:
        raise exception.ConfigurationError(reason=str(error)) from error
    for line in _summary(ended, made, args):
        print(line)
    return 0


def _ended(database: db_api.Database) -> Iterator[db_api.SessionRecord]:
    """Yield the ended sessions, newest first."""
    ended = db_api.SessionFilter(states=sorted(states.TERMINAL))
    marker = None
    while page := database.list_sessions(ended, marker=marker, limit=_PAGE):
        yield from page
        marker = page[-1].session_id


def _summary(
    ended: Sequence[db_api.SessionRecord],
    made: scenarios.Scenario,
    args: argparse.Namespace,
) -> Iterator[str]:
    begin, end = (
        datetime.datetime.fromtimestamp(at, datetime.UTC)
        for at in (ended[-1].queued_at, ended[0].queued_at)
    )
    yield (
        f"{args.file}: {len(made.jobs)} sessions, from {begin:%Y-%m-%d %H:%M}"
        f" to {end:%Y-%m-%d %H:%M} UTC; projects: "
        f"{len({job.tenant for job in made.jobs})}, slots: {made.slot_count}."
    )
    if left_out := len(ended) - len(made.jobs):
        yield (
            f"{left_out} sessions are left out: they ended without a slot or "
            "without data."
        )
    if len(ended) == args.newest:
        yield (
            f"Only the newest {args.newest} ended sessions were read; "
            "--newest reads more."
        )
    fair = " --fair-share" if args.conf.conductor.fair_share else ""
    yield f"Next: fpgapool-sim advise{fair} {args.file}"


def scenario(
    ended: Sequence[db_api.SessionRecord],
    inventory: db_inventory.Inventory,
    profiles: Mapping[str, objects.AcceleratorProfile],
    conf: cfg.ConfigOpts,
    *,
    pseudonyms: bool = False,
) -> scenarios.Scenario:
    """Return the sessions as jobs of a cluster like the pool.

    :param ended: sessions that have ended; those that never sent data are left
        out, because nobody knows how much they would have sent.
    :param profiles: the library, by key.
    :param pseudonyms: whether numbers replace the identifiers of projects and
        the names of their applications.
    :raises exception.ConfigurationError: if no session or no slot is left, or
        the configured strategy has an invalid option.
    """
    used = sorted(
        (one for one in ended if one.input_bytes and one.started_at),
        key=lambda one: (one.queued_at, one.id),
    )
    if not used:
        raise exception.ConfigurationError(
            reason="the database has no ended sessions with data; [database]"
            " retention_days says how long it keeps them"
        )
    names_of = _Names(pseudonyms)
    numbers = {host.id: at for at, host in enumerate(inventory.hosts)}
    strategy = conf.conductor.strategy
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        name="sessions of a pool",
        cluster=_cluster(inventory, numbers, used, profiles, names_of),
        strategies={strategy: _strategy(conf)},
        # As the conductor does.
        wakeups=True,
        jobs=[
            _job(at, one, used[0].queued_at, numbers, names_of)
            for at, one in enumerate(used)
        ],
        expected={strategy: _recorded(used)},
    )


class _Names:
    """Names as the file has them."""

    def __init__(self, pseudonyms: bool) -> None:
        self.project = _numbered("project") if pseudonyms else str
        self.application = _numbered("application") if pseudonyms else str

    def accelerator(self, key: str) -> str:
        """Return an accelerator's key; it may contain its project."""
        owner = names.owner_of(key)
        if owner is None:
            return key
        return names.key_of(
            key.removesuffix(f"{names.SEPARATOR}{owner}"), self.project(owner)
        )


def _numbered(word: str) -> Callable[[str], str]:
    known: dict[str, str] = {}
    return lambda name: known.setdefault(name, f"{word}-{len(known) + 1}")


def _job(
    number: int,
    session: db_api.SessionRecord,
    begin: float,
    hosts: Mapping[int, int],
    names_of: _Names,
) -> scenarios.JobSpec:
    application = session.application
    return scenarios.JobSpec(
        id=number,
        # The host may have left the pool.
        host=hosts.get(session.host_id),
        size_bytes=session.input_bytes,
        arrival_s=session.queued_at - begin,
        accelerator=names_of.accelerator(session.accelerator),
        tenant=names_of.project(session.project_id),
        deadline_s=session.deadline_s,
        priority=session.priority,
        app=application and names_of.application(application),
        claimed_bytes=max(session.claimed_bytes, 1),
    )


def _recorded(used: Sequence[db_api.SessionRecord]) -> schedules.Outcome:
    """Return what the pool itself gave the sessions."""
    completions_s = [
        one.finished_at - one.queued_at for one in used if one.finished_at
    ]
    return schedules.Outcome(
        [],
        {
            "act_s": statistics.fmean(completions_s),
            "tct95_s": float(np.percentile(completions_s, 95)),
        },
    )


# -- the pool ----------------------------------------------------------------


def _cluster(
    inventory: db_inventory.Inventory,
    numbers: Mapping[int, int],
    used: Sequence[db_api.SessionRecord],
    profiles: Mapping[str, objects.AcceleratorProfile],
    names_of: _Names,
) -> scenarios.Cluster:
    """Return the pool's hardware and accelerators.

    All boards of a host are one. Slots that are faulty or disabled do not
    count; hosts that do not report now do.
    """
    out = (states.DISABLED, states.DRAINING, states.FAULTY)
    slots = [
        slot
        for slot in inventory.slots
        if slot.device.state not in out and not slot.record.faulty
    ]
    if not slots:
        raise exception.ConfigurationError(
            reason="the database has no slots in service, so there is nothing"
            " to replay sessions on"
        )
    by_host = collections.defaultdict[int, list[db_inventory.Slot]](list)
    for slot in slots:
        by_host[numbers[slot.device.host.id]].append(slot)
    return scenarios.Cluster(
        hosts=len(numbers),
        fpga_hosts=tuple(sorted(by_host)),
        accelerators=_accelerators(used, profiles, names_of),
        reconfiguration_s=statistics.fmean(
            slot.record.programming_time_s for slot in slots
        ),
        host_overrides={
            numbers[host.id]: _host(host, by_host.get(numbers[host.id], ()))
            for host in inventory.hosts
        },
    )


def _host(
    host: db_api.HostRecord, slots: Sequence[db_inventory.Slot]
) -> scenarios.HostOverride:
    if not slots:
        return scenarios.HostOverride(nic_bytes_per_s=host.nic_bytes_per_s)
    devices = {slot.device.id: slot.device.record for slot in slots}
    shapes = collections.Counter(slot.record.shape for slot in slots)
    return scenarios.HostOverride(
        slots_per_device=len(slots),
        dma_bytes_per_s=sum(one.dma_bytes_per_s for one in devices.values()),
        nic_bytes_per_s=host.nic_bytes_per_s,
        shape=shapes.most_common(1)[0][0],
    )


def _accelerators(
    used: Sequence[db_api.SessionRecord],
    profiles: Mapping[str, objects.AcceleratorProfile],
    names_of: _Names,
) -> dict[str, scenarios.AcceleratorProfile]:
    """Return the accelerators that the sessions used.

    Clients are often slower than slots, and slots are held meanwhile. So the
    rates are those that sessions had, where they are below the library's.
    """
    found = {}
    for key in sorted({one.accelerator for one in used}):
        own = [one for one in used if one.accelerator == key]
        bytes_per_s = _measured_bytes_per_s(own)
        profile = profiles.get(key)
        share, peaks = 1.0, {}
        if profile is not None and profile.peak_bytes_per_s:
            share = min(1.0, bytes_per_s / profile.peak_bytes_per_s)
            bytes_per_s = share * profile.peak_bytes_per_s
            peaks = platforms.peaks(profile.platforms)
        ratio = sum(one.output_bytes for one in own) / sum(
            one.input_bytes for one in own
        )
        found[names_of.accelerator(key)] = scenarios.AcceleratorProfile(
            bytes_per_s,
            min(ratio, scenarios.MAX_RETURN_RATIO),
            platforms={
                shape: scenarios.Platform(share * peak)
                for shape, peak in peaks.items()
            },
        )
    return found


def _measured_bytes_per_s(used: Sequence[db_api.SessionRecord]) -> float:
    """Return the rate of sessions while they held their slots."""
    held_s = sum(
        max(one.finished_at - one.started_at, 0.0)
        for one in used
        if one.finished_at and one.started_at
    )
    total_bytes = sum(one.input_bytes for one in used)
    # Faster than any profile may be, if the clock did not advance.
    return total_bytes / held_s if held_s else scenarios.MAX_BYTES_PER_S


def _strategy(conf: cfg.ConfigOpts) -> scenarios.StrategyOptions:
    """Return the configured strategy's options."""
    group = conf.scheduler
    preempts = group.preempt != "none"
    try:
        given = strategy_loading.options(conf)
        shared = {
            name: given[name]
            for name in scheduling.FIELDS
            if given[name] is not None
        }
        own = {
            name: value
            for name, value in given.items()
            if name not in scheduling.FIELDS
        }
        return msgspec.convert(
            {
                **shared,
                "own": own,
                "seed": group.seed,
                "preempt": group.preempt,
                "preempt_gain": group.preempt_gain if preempts else 0.0,
                "preempt_quantum_bytes": group.preempt_quantum_bytes
                if preempts
                else None,
            },
            scenarios.StrategyOptions,
        )
    except (ValueError, msgspec.ValidationError) as error:
        raise exception.ConfigurationError(
            reason=f"[scheduler]: {error}"
        ) from error
