# SPDX-License-Identifier: Apache-2.0

"""Reads, checks and writes scenario files."""

from __future__ import annotations

import json
import math
import pathlib
import typing

import msgspec

from fpgapool.sim import containers
from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import scenario as scenarios


def read(path: pathlib.Path) -> scenarios.Scenario:
    """Read a scenario file.

    :raises errors.InputError: if it cannot be read, or cannot be simulated.
    """
    source = str(path)
    text = files.read_text(path)
    try:
        scenario = _decode(text)
    except msgspec.ValidationError as error:
        raise errors.InputError(
            source, *place_and_reason(str(error))
        ) from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise errors.InputError(source, place, error.msg) from error
    check(scenario, source)
    return scenario


def _decode(text: str) -> scenarios.Scenario:
    try:
        return msgspec.json.decode(text, type=scenarios.Scenario)
    except msgspec.DecodeError:
        # Slower, but this says where the text stops being JSON, and accepts
        # NaN, so that the check of its member refuses it.
        document = accept_old_name(json.loads(text))
        return msgspec.convert(document, scenarios.Scenario, str_keys=True)


def accept_old_name(document: typing.Any) -> typing.Any:
    """Rename ``policies``, as older files call the strategies.

    :param document: a file's content; is changed.
    """
    if isinstance(document, dict) and "policies" in document:
        document.setdefault("strategies", document.pop("policies"))
    return document


def write(scenario: scenarios.Scenario, path: pathlib.Path) -> None:
    """Write a scenario file, as a whole or not at all.

    :raises errors.InputError: if it cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(scenario), indent=1)
    files.write(path, text + b"\n")


def place_and_reason(message: str) -> tuple[str, str]:
    """Split msgspec's ``Expected … - at `$.jobs[3].host```."""
    reason, _, place = message.partition(" - at ")
    place = place.replace("`", "").replace("$.", "").replace("$", "")
    return place, reason[:1].lower() + reason[1:]


# -- checks beyond types ---------------------------------------------------


def check(scenario: scenarios.Scenario, source: str) -> None:
    """Check that a scenario can be simulated.

    :param source: its file, for the message.
    :raises errors.InputError: if it cannot.
    """
    _check_cluster(scenario.cluster, source)
    if not scenario.strategies:
        raise errors.InputError(
            source, "strategies", "there are none; add at least one"
        )
    for name, strategy in scenario.strategies.items():
        _check_thresholds(strategy, f"strategies.{name}", source)
        _check_preemption(scenario.cluster, strategy, name, source)
        if strategy.elasticity is not None and not scenario.groups:
            raise errors.InputError(
                source,
                f"strategies.{name}.elasticity",
                "there are no groups",
            )
    _check_jobs(scenario, source)
    _check_priorities(scenario, source)
    _check_groups(scenario, source)
    containers.check(scenario, source)


def _check_cluster(cluster: scenarios.Cluster, source: str) -> None:
    for place in ("dma_bytes_per_s", "nic_bytes_per_s"):
        _check_finite(getattr(cluster, place), f"cluster.{place}", source)
    for name, profile in cluster.accelerators.items():
        where = f"cluster.accelerators.{name}"
        _check_finite(
            profile.peak_bytes_per_s, f"{where}.peak_bytes_per_s", source
        )
        _check_finite(profile.return_ratio, f"{where}.return_ratio", source)
        for shape, platform in profile.platforms.items():
            at_shape = f"{where}.platforms.{shape}"
            _check_finite(
                platform.peak_bytes_per_s,
                f"{at_shape}.peak_bytes_per_s",
                source,
            )
            if platform.active_w is not None:
                _check_finite(
                    platform.active_w, f"{at_shape}.active_w", source
                )
        for member in ("cpu_bytes_per_s", "quantum_bytes"):
            value = getattr(profile, member)
            if value is not None:
                _check_finite(value, f"{where}.{member}", source)
            elif cluster.cores_per_host is not None:
                reason = "is missing; hosts with cores need it"
                raise errors.InputError(source, f"{where}.{member}", reason)
    _check_finite(cluster.attach_s, "cluster.attach_s", source)
    _check_cores(cluster, source)
    seen: set[int] = set()
    for at, host in enumerate(cluster.fpga_hosts):
        where = f"cluster.fpga_hosts[{at}]"
        _check_host(host, cluster, where, source)
        if host in seen:
            raise errors.InputError(source, where, f"has host {host} twice")
        seen.add(host)
    for host in cluster.host_overrides:
        where = f"cluster.host_overrides.{host}"
        _check_host(host, cluster, where, source)


def _check_cores(cluster: scenarios.Cluster, source: str) -> None:
    has_cores = cluster.cores_per_host is not None
    for member, right in (
        ("attach_s", has_cores),
        ("reconfiguration_s", not has_cores),
    ):
        if getattr(cluster, member) and not right:
            reason = (
                "with cores, only attach_s counts"
                if has_cores
                else "needs cluster.cores_per_host"
            )
            raise errors.InputError(source, f"cluster.{member}", reason)


def _check_preemption(
    cluster: scenarios.Cluster,
    strategy: scenarios.StrategyOptions,
    name: str,
    source: str,
) -> None:
    place = f"strategies.{name}"
    has_cores = cluster.cores_per_host is not None
    if strategy.deadline_action not in (None, "continue") and not has_cores:
        raise errors.InputError(
            source, f"{place}.deadline_action", "needs cluster.cores_per_host"
        )
    _check_finite(strategy.preempt_gain, f"{place}.preempt_gain", source)
    if strategy.preempt_quantum_bytes is not None and has_cores:
        raise errors.InputError(
            source,
            f"{place}.preempt_quantum_bytes",
            "with cores, the accelerators' quantum_bytes count",
        )
    for member in ("preempt_gain", "preempt_quantum_bytes"):
        if getattr(strategy, member) and strategy.preempt == "none":
            raise errors.InputError(
                source, f"{place}.{member}", "needs preempt: fine"
            )


def _check_host(
    host: int, cluster: scenarios.Cluster, place: str, source: str
) -> None:
    if host >= cluster.hosts:
        raise errors.InputError(
            source,
            place,
            f"there is no host {host}, only 0 to {cluster.hosts - 1}",
        )


def _check_finite(value: float, place: str, source: str) -> None:
    if not math.isfinite(value):
        raise errors.InputError(source, place, f"{value} is not finite")


def _check_thresholds(
    strategy: scenarios.StrategyOptions, place: str, source: str
) -> None:
    bounds = strategy.thresholds_bytes or ()
    for at in range(1, len(bounds)):
        if not bounds[at - 1] < bounds[at]:
            raise errors.InputError(
                source,
                f"{place}.thresholds_bytes[{at}]",
                f"{bounds[at]:g} is not above {bounds[at - 1]:g}",
            )


def _check_jobs(scenario: scenarios.Scenario, source: str) -> None:
    cluster = scenario.cluster
    if not scenario.jobs and not scenario.groups:
        raise errors.InputError(
            source, "jobs", "there are none; add at least one"
        )
    if not cluster.fpga_hosts:
        raise errors.InputError(
            source,
            "cluster.fpga_hosts",
            f"is empty; {'jobs' if scenario.jobs else 'groups'} need a host "
            "with a board",
        )
    seen: set[int] = set()
    for at, job in enumerate(scenario.jobs):
        place = f"jobs[{at}]"
        if job.id in seen:
            raise errors.InputError(
                source, f"{place}.id", f"{job.id} is used twice"
            )
        seen.add(job.id)
        if job.host is not None:
            _check_host(job.host, cluster, f"{place}.host", source)
        if job.accelerator not in cluster.accelerators:
            known = ", ".join(sorted(cluster.accelerators)) or "none"
            raise errors.InputError(
                source,
                f"{place}.accelerator",
                f"there is no accelerator {job.accelerator!r}; known: {known}",
            )
        _check_finite(job.size_bytes, f"{place}.size_bytes", source)
        _check_finite(job.arrival_s, f"{place}.arrival_s", source)
        if job.deadline_s is not None:
            _check_finite(job.deadline_s, f"{place}.deadline_s", source)


def _check_priorities(scenario: scenarios.Scenario, source: str) -> None:
    """Check that hosts with cores, which ignore priorities, have none."""
    if scenario.cluster.cores_per_host is None:
        return
    given = [
        f"jobs[{at}].priority"
        for at, job in enumerate(scenario.jobs)
        if job.priority
    ]
    if scenario.max_priorities:
        given.append("max_priorities")
    if given:
        raise errors.InputError(source, given[0], "does not go with cores")


def _check_groups(scenario: scenarios.Scenario, source: str) -> None:
    if scenario.groups and scenario.cluster.cores_per_host is not None:
        raise errors.InputError(
            source, "groups", "hosts with cores have jobs only"
        )
    names: set[str] = set()
    for at, group in enumerate(scenario.groups):
        place = f"groups[{at}]"
        if group.name in names:
            raise errors.InputError(
                source, f"{place}.name", f"{group.name!r} is used twice"
            )
        names.add(group.name)
        _check_group(group, place, source)
    _check_group_slots(scenario, source)


def _check_group_slots(scenario: scenarios.Scenario, source: str) -> None:
    """Check that the groups that are there at first fit into the cluster."""
    wanted = sum(group.slots for group in scenario.groups if not group.goal)
    if scenario.jobs:
        wanted = scenario.group_slots + 1
    if wanted > scenario.slot_count:
        raise errors.InputError(
            source,
            "groups",
            f"the cluster has {scenario.slot_count} slots; the groups "
            f"{'and the jobs ' if scenario.jobs else ''}need at least "
            f"{wanted}",
        )


def _check_group(group: scenarios.Group, place: str, source: str) -> None:
    most = math.inf if group.max_size is None else group.max_size
    if not group.min_size <= group.slots <= most:
        raise errors.InputError(
            source,
            f"{place}.slots",
            f"{group.slots} is not between min_size and max_size, "
            f"{group.min_size} and {most:g}",
        )
    if group.end_s is not None:
        _check_finite(group.end_s, f"{place}.end_s", source)
    if not group.clients:
        raise errors.InputError(
            source, f"{place}.clients", "there are none; add at least one"
        )
    names: set[str] = set()
    for at, client in enumerate(group.clients):
        where = f"{place}.clients[{at}]"
        if client.name in names:
            raise errors.InputError(
                source, f"{where}.name", f"{client.name!r} is used twice"
            )
        names.add(client.name)
        _check_client(client, where, source)
    if group.goal is not None:
        _check_goal(group.goal, f"{place}.goal", source)


def _check_client(
    client: scenarios.GroupClient, place: str, source: str
) -> None:
    _check_finite(client.task_s, f"{place}.task_s", source)
    batch_s = client.task_s * client.batch_tasks
    if client.window_s is not None and client.window_s < batch_s:
        raise errors.InputError(
            source,
            f"{place}.window_s",
            f"{client.window_s:g} has no room for a batch of {batch_s:g} "
            "slot-seconds",
        )
    if (client.load is None) == (client.arrivals_s is None):
        raise errors.InputError(
            source, place, "needs either load or arrivals_s"
        )
    for at, (length_s, slots) in enumerate(client.load or ()):
        _check_finite(length_s, f"{place}.load[{at}][0]", source)
        _check_finite(slots, f"{place}.load[{at}][1]", source)
    for at, arrival_s in enumerate(client.arrivals_s or ()):
        _check_finite(arrival_s, f"{place}.arrivals_s[{at}]", source)
    if not client.load and not client.arrivals_s:
        raise errors.InputError(source, place, "no task ever arrives")


def _check_goal(goal: scenarios.Goal, place: str, source: str) -> None:
    for name in ("deadline_s", "rate_per_s"):
        value = getattr(goal, name)
        if value is not None:
            _check_finite(value, f"{place}.{name}", source)
    if (goal.deadline_s is None) == (goal.rate_per_s is None):
        raise errors.InputError(
            source, place, "needs either deadline_s or rate_per_s"
        )
    if goal.deadline_s is not None and goal.actions is None:
        raise errors.InputError(
            source, f"{place}.actions", "is missing; a deadline needs it"
        )
