# SPDX-License-Identifier: Apache-2.0

"""Reads, checks and writes scenario files."""

from __future__ import annotations

import json
import math
import pathlib
import re
import typing
from collections.abc import Callable
from collections.abc import Iterator

import msgspec
from msgspec import inspect

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import models
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.vocabulary import names as vocabulary
from fpgapool.vocabulary import reservation
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states


def read(path: pathlib.Path) -> scenarios.Scenario:
    """Read a scenario file.

    :raises errors.InputError: if it cannot be read, or cannot be simulated.
    """
    source = str(path)
    scenario = decode(
        files.read_text(path).encode(), scenarios.Scenario, source
    )
    check(scenario, source)
    return scenario


def write(scenario: scenarios.Scenario, path: pathlib.Path) -> None:
    """Write a scenario file, completely or not at all.

    :raises errors.InputError: if it cannot be written, or would exceed the
        size limit of files.
    """
    text = msgspec.json.format(msgspec.json.encode(scenario), indent=1)
    files.check_size(path, len(text) + 1)
    files.write(path, text + b"\n")


def check_all(scenario: scenarios.Scenario, source: str) -> None:
    """Check a scenario that was not read from a file.

    :raises errors.InputError: if it cannot be simulated.
    """
    check(
        decode(msgspec.json.encode(scenario), scenarios.Scenario, source),
        source,
    )


# Larger files are generated, so they have no duplicate keys.
_MOST_WRITTEN_BYTES = 8 * 1024 * 1024


class _Members(dict[str, typing.Any]):
    """The members of an object.

    :ivar twice: the first member that occurs more than once.
    """

    def __init__(self, pairs: list[tuple[str, typing.Any]]) -> None:
        super().__init__()
        self.twice: str | None = None
        for key, value in pairs:
            if key in self:
                self.twice = self.twice or key
            self[key] = value


def _check_keys(text: bytes, source: str) -> None:
    """Check that no object has a duplicate key; JSON would take the last one.

    :raises errors.InputError: if one has.
    """
    if len(text) > _MOST_WRITTEN_BYTES:
        return
    try:
        document = json.loads(text, object_pairs_hook=_Members)
    except ValueError:
        # The other parser reports where the text stops being JSON.
        return
    unseen = [("", document)]
    while unseen:
        place, value = unseen.pop()
        if isinstance(value, _Members):
            if value.twice is not None:
                place = f"{place}.{value.twice}".removeprefix(".")
                raise errors.InputError(source, place, "is a duplicate")
            unseen += [(f"{place}.{key}", one) for key, one in value.items()]
        elif isinstance(value, list):
            unseen += [(f"{place}[{at}]", one) for at, one in enumerate(value)]


_Document = typing.TypeVar("_Document")


def decode(text: bytes, kind: type[_Document], source: str) -> _Document:
    """Convert a JSON file.

    :raises errors.InputError: if it is not JSON of this kind.
    """
    try:
        _check_keys(text, source)
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.ValidationError as error:
            # The rest of the text may not even be JSON.
            document = msgspec.json.decode(text)
            problem = error
    except RecursionError:
        raise errors.InputError(source, "", "is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise errors.InputError(
            source, *_malformed(text, str(error))
        ) from error
    if isinstance(document, dict) and "$.jobs" not in str(problem):
        # Otherwise all jobs would be converted again for each possible key.
        document["jobs"] = []
    raise errors.InputError(
        source,
        *place_and_reason(problem, document, kind),
    ) from problem


def _malformed(text: bytes, message: str) -> tuple[str, str]:
    """Return where a text stops being JSON, and msgspec's reason."""
    reason, _, at = message.partition(" (byte ")
    offset = int(at.removesuffix(")")) if at else len(text)
    line = text.count(b"\n", 0, offset) + 1
    column = offset - text.rfind(b"\n", 0, offset)
    seen = text[offset : offset + 10].decode(errors="replace")
    if seen:
        reason += f", at {seen!r}"
    return f"line {line} column {column}", reason


def place_and_reason(
    error: msgspec.ValidationError,
    document: typing.Any,
    kind: type[object],
) -> tuple[str, str]:
    """Split msgspec's ``Expected … - at `$.jobs[3].host```.

    For the key of a mapping, msgspec writes ``[...]``; the result has the key
    instead. For a value that is none of a few, the reason has these.

    :param document: the document that was converted, as plain values.
    :param kind: what it was converted to.
    """
    message = str(error)
    reason, _, place = message.partition(" - at ")
    place = place.replace("`", "")
    choices = _choices(kind, place)
    members = _members(kind, place)
    if _SOME_KEY in place:
        place = _with_keys(
            place,
            message,
            document,
            lambda: msgspec.convert(document, kind, str_keys=True),
        )
    place = place.replace("$.", "").replace("$", "")
    unknown = _UNKNOWN.fullmatch(reason)
    if choices and unknown is None:
        return place, _none_of(reason, choices)
    if unknown is None:
        return place, reason[:1].lower() + reason[1:]
    name = unknown[1]
    near = vocabulary.hint(name, members)
    if place.startswith(_OPTIONS):
        return place, f"unknown option {name}{near}"
    known = near or f"; known members: {', '.join(members)}"
    return place, f"unknown member {name}{known}"


def _none_of(reason: str, choices: list[str]) -> str:
    """Return the reason for a value that is none of these."""
    value = _NO_CHOICE.fullmatch(reason)
    near = ""
    if value is not None:
        reason = f"unknown value {value[1]!r}"
        near = vocabulary.hint(value[1], choices)
    return (
        f"{reason[:1].lower()}{reason[1:]}{near or ';'} known values: "
        f"{', '.join(choices)}"
    )


def _choices(kind: type[object], place: str) -> list[str]:
    """Return the strings that are allowed at a place; empty: any, or none.

    :param place: as msgspec writes it.
    """
    return [
        str(value)
        for each in _types(kind, place)
        if isinstance(each, inspect.LiteralType)
        for value in each.values
    ]


def _members(kind: type[object], place: str) -> list[str]:
    """Return the names of the members that an object at a place may have.

    :param place: as msgspec writes it.
    """
    return [
        field.encode_name
        for each in _types(kind, place)
        if isinstance(each, inspect.StructType)
        for field in each.fields
    ]


def _types(kind: type[object], place: str) -> Iterator[inspect.Type]:
    """Yield the types that a value at a place may have."""
    found = [inspect.type_info(kind)]
    for part in _PARTS.findall(place)[1:]:
        found = [inner for one in found for inner in _inside(one, part)]
    for one in found:
        if isinstance(one, inspect.UnionType):
            yield from one.types
        else:
            yield one


def _inside(kind: inspect.Type, part: str) -> Iterator[inspect.Type]:
    """Yield the types of a member, or of an element."""
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _inside(one, part)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == part:
                yield field.type
    elif isinstance(kind, inspect.DictType):
        yield kind.value_type
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
        yield kind.item_type


_SOME_KEY = "[...]"
_PARTS = re.compile(r"\[\.\.\.\]|\[\d+\]|[^.\[\]]+")
_NO_CHOICE = re.compile("Invalid enum value '(.*)'")
_UNKNOWN = re.compile("Object contains unknown field `(.*)`")
_OPTIONS = "strategies."


def _with_keys(
    place: str,
    message: str,
    document: typing.Any,
    convert: Callable[[], object],
) -> str:
    """Replace ``[...]`` with the keys whose values cause the error."""
    parts, at = [], document
    for part in _PARTS.findall(place):
        if part == "$":
            parts.append(part)
        elif part == _SOME_KEY:
            key = _key_of(at, message, convert)
            if key is None:
                return place
            parts.append(f".{key}")
            at = at[key]
        elif part.startswith("["):
            parts.append(part)
            at = at[int(part[1:-1])]
        else:
            parts.append(f".{part}")
            at = at.get(part)
    return "".join(parts)


def _key_of(
    mapping: dict[str, typing.Any],
    message: str,
    convert: Callable[[], object],
) -> str | None:
    """Return the key whose value causes an error."""
    members = dict(mapping)
    try:
        for key, value in members.items():
            mapping.clear()
            mapping[key] = value
            try:
                convert()
            except msgspec.ValidationError as error:
                if str(error) == message:
                    return key
        return None
    finally:
        mapping.clear()
        mapping.update(members)


# -- checks beyond types ---------------------------------------------------

_NO_POLICY = scenarios.Elasticity()

#: A place in the file, and what is wrong there.
_Problems = Iterator[tuple[str, str]]


def check(scenario: scenarios.Scenario, source: str) -> None:
    """Check that a scenario can be simulated.

    :raises errors.InputError: if it cannot.
    """
    for place, reason in _problems(scenario):
        raise errors.InputError(source, place, reason)
    model = models.of(scenario.cluster, source)
    if model is not None:
        model.check(scenario, source)
    for place, reason in _problems_of_groups(scenario):
        raise errors.InputError(source, place, reason)


def _problems(scenario: scenarios.Scenario) -> _Problems:
    """Yield all problems except those of groups."""
    yield from _problems_of_cluster(scenario.cluster)
    if scenario.slot_count > scenarios.MAX_SLOTS:
        yield (
            "cluster",
            f"has {scenario.slot_count} slots; at most "
            f"{scenarios.MAX_SLOTS} are allowed",
        )
    if not scenario.strategies:
        yield "strategies", "at least one is required"
    for name, strategy in scenario.strategies.items():
        yield from _problems_of_strategy(strategy, f"strategies.{name}")
        if strategy.elasticity is not None and not scenario.groups:
            yield f"strategies.{name}.elasticity", "requires groups"
    if scenario.cluster.tasks_per_s is not None and not scenario.groups:
        yield "cluster.tasks_per_s", "requires groups"
    yield from _problems_of_jobs(scenario)
    yield from _problems_of_sets(scenario)
    yield from _problems_of_models(scenario)
    yield from _problems_of_outages(scenario)
    yield from _problems_of_priorities(scenario)
    yield from _problems_of_budgets(scenario)
    yield from _problems_of_users(scenario)
    yield from _problems_of_reservations(scenario)


def _problems_of_cluster(cluster: scenarios.Cluster) -> _Problems:
    for name, profile in cluster.accelerators.items():
        if profile.cpu_bytes_per_s not in (None, profile.core_bytes_per_s):
            yield (
                f"cluster.accelerators.{name}.cpu_bytes_per_s",
                "differs from the rate of the platform cpu",
            )
    seen: set[int] = set()
    for at, host in enumerate(cluster.fpga_hosts):
        place = f"cluster.fpga_hosts[{at}]"
        yield from _problems_of_host(host, cluster, place)
        if host in seen:
            yield place, f"duplicate host {host}"
        seen.add(host)
    for host in cluster.host_overrides:
        place = f"cluster.host_overrides.{host}"
        yield from _problems_of_host(host, cluster, place)


def _problems_of_host(
    host: int, cluster: scenarios.Cluster, place: str
) -> _Problems:
    if host >= cluster.hosts:
        yield (
            place,
            f"there is no host {host}; hosts are numbered 0 to "
            f"{cluster.hosts - 1}",
        )


def _problems_of_strategy(
    strategy: scenarios.StrategyOptions, place: str
) -> _Problems:
    bounds = strategy.thresholds_bytes or ()
    for at in range(1, len(bounds)):
        if not bounds[at - 1] < bounds[at]:
            yield (
                f"{place}.thresholds_bytes[{at}]",
                f"{bounds[at]:g} is not above {bounds[at - 1]:g}",
            )
    for member in ("preempt_gain", "preempt_quantum_bytes"):
        if getattr(strategy, member) and strategy.preempt == "none":
            yield f"{place}.{member}", "requires preempt: fine"
    policy = strategy.elasticity
    if policy is not None and policy.name == _NO_POLICY.name:
        for member in ("period_s", "estimate", "own"):
            if getattr(policy, member) != getattr(_NO_POLICY, member):
                yield (
                    f"{place}.elasticity.{member}",
                    f"requires a policy other than {policy.name}",
                )


def _problems_of_jobs(scenario: scenarios.Scenario) -> _Problems:
    cluster = scenario.cluster
    if not scenario.jobs and not scenario.groups:
        yield "jobs", "at least one is required"
    if not cluster.fpga_hosts:
        yield (
            "cluster.fpga_hosts",
            f"is empty; {'jobs' if scenario.jobs else 'groups'} need a host "
            "with a board",
        )
    seen: set[int] = set()
    for at, job in enumerate(scenario.jobs):
        if job.id in seen:
            yield f"jobs[{at}].id", f"{job.id} is used twice"
        seen.add(job.id)
        if job.host is not None and job.host >= cluster.hosts:
            yield from _problems_of_host(job.host, cluster, f"jobs[{at}].host")
        if job.chain is not None:
            yield from _problems_of_chain(scenario, job, f"jobs[{at}]")
        elif not job.accelerator:
            yield (
                f"jobs[{at}].accelerator",
                "is required, unless it is a chain",
            )
        else:
            yield from _problems_of_accelerator(
                job.accelerator, cluster, f"jobs[{at}].accelerator"
            )


def _problems_of_accelerator(
    name: str, cluster: scenarios.Cluster, place: str
) -> _Problems:
    if name not in cluster.accelerators:
        known = ", ".join(sorted(cluster.accelerators)) or "none"
        yield (
            place,
            f"unknown accelerator {name!r}; known accelerators: {known}",
        )


def _problems_of_chain(
    scenario: scenarios.Scenario, job: scenarios.JobSpec, place: str
) -> _Problems:
    cluster, stages = scenario.cluster, job.accelerators
    if job.accelerator:
        yield f"{place}.accelerator", "cannot be combined with chain"
    if job.set_id is not None:
        yield f"{place}.set_id", "cannot be combined with chain"
    if job.claimed_bytes is not None:
        yield (
            f"{place}.claimed_bytes",
            "cannot be combined with chain: its stages claim what they get",
        )
    if not rules.MIN_STAGES <= len(stages) <= rules.MAX_STAGES:
        yield (
            f"{place}.chain",
            f"has {len(stages)} stages; a chain has {rules.MIN_STAGES} to "
            f"{rules.MAX_STAGES}",
        )
    for number, name in enumerate(stages):
        where = f"{place}.chain[{number}]"
        yield from _problems_of_accelerator(name, cluster, where)
        is_last = number == len(stages) - 1
        if not is_last and not cluster.accelerators[name].return_ratio:
            yield (
                where,
                f"{name!r} returns no data (return_ratio 0), so it can only "
                "be the last stage",
            )
    yield from _problems_of_size(
        scenario, len(stages), job.set_placement, f"{place}.chain"
    )


def _problems_of_size(
    scenario: scenarios.Scenario,
    count: int,
    placement: str | None,
    place: str,
) -> _Problems:
    """Yield why there is no room for a set or a chain, if nobody else came."""
    slots = scenario.job_slots.values()
    most = max(slots, default=0)
    if count > sum(slots):
        yield (
            place,
            f"needs {count} slots at the same time; there are {sum(slots)} "
            "for jobs",
        )
    elif placement == states.SPREAD:
        boards = sum(own > 0 for own in slots)
        if count > boards:
            yield place, f"needs {count} boards; {boards} have slots for jobs"
    elif placement is not None and count > most:
        yield (
            place,
            f"needs {count} slots of one board; none has more than {most} "
            "for jobs",
        )


def _problems_of_sets(scenario: scenarios.Scenario) -> _Problems:
    found: dict[tuple[str, str], list[int]] = {}
    for at, job in enumerate(scenario.jobs):
        if job.set_id is not None:
            found.setdefault((job.tenant, job.set_id), []).append(at)
        elif job.set_placement is not None and job.chain is None:
            yield f"jobs[{at}].set_placement", "requires set_id or chain"
    for (_, set_id), places in found.items():
        first, count = scenario.jobs[places[0]], len(places)
        if not rules.MIN_SET_SIZE <= count <= rules.MAX_SET_SIZE:
            yield (
                f"jobs[{places[0]}].set_id",
                f"the set {set_id!r} has {count} jobs; it must have"
                f" {rules.MIN_SET_SIZE} to {rules.MAX_SET_SIZE}",
            )
        for at in places:
            for member in ("arrival_s", "set_placement"):
                if getattr(scenario.jobs[at], member) != getattr(
                    first, member
                ):
                    yield (
                        f"jobs[{at}].{member}",
                        f"must be that of job {first.id}, as both are of the"
                        f" set {set_id!r}",
                    )
        yield from _problems_of_size(
            scenario,
            count,
            first.set_placement,
            f"jobs[{places[0]}].set_id",
        )
    kinds = {
        "sets of jobs": bool(found),
        "chains": any(job.chain is not None for job in scenario.jobs),
    }
    model_member = models.member_of(scenario.cluster)
    for kind in (kind for kind, is_there in kinds.items() if is_there):
        if scenario.outages:
            yield "outages", f"cannot be combined with {kind}"
        if model_member is not None:
            yield f"cluster.{model_member}", f"cannot be combined with {kind}"


def _problems_of_models(scenario: scenarios.Scenario) -> _Problems:
    """Yield members that require a model that the cluster does not use."""
    cluster = scenario.cluster
    if cluster.cores_per_host is None:
        if cluster.attach_s:
            yield "cluster.attach_s", "requires cluster.cores_per_host"
        for name, strategy in scenario.strategies.items():
            if strategy.deadline_action not in (None, "continue"):
                yield (
                    f"strategies.{name}.deadline_action",
                    "requires cluster.cores_per_host",
                )
        if cluster.power is not None and cluster.power.core_active_w:
            yield (
                "cluster.power.core_active_w",
                "requires cluster.cores_per_host",
            )
    if cluster.heartbeat_s is None:
        if cluster.containers_per_device != 1:
            yield (
                "cluster.containers_per_device",
                "requires cluster.heartbeat_s",
            )
        for at, job in enumerate(scenario.jobs):
            for member in ("tasks", "cpu_s_per_task"):
                if getattr(job, member):
                    yield (
                        f"jobs[{at}].{member}",
                        "requires cluster.heartbeat_s",
                    )


def _combination(scenario: scenarios.Scenario, name: str) -> _Problems:
    """Yield why jobs alone, and slots alone, can have what a member says."""
    member = models.member_of(scenario.cluster)
    if scenario.groups or member is not None:
        other = "groups" if member is None else f"cluster.{member}"
        yield name, f"cannot be combined with {other}"


def _problems_of_budgets(scenario: scenarios.Scenario) -> _Problems:
    if not scenario.budgets:
        return
    yield from _combination(scenario, "budgets")
    tenants = {job.tenant for job in scenario.jobs}
    for tenant, budget in scenario.budgets.items():
        place = f"budgets.{tenant}"
        if budget.slot_s is None and budget.bytes is None:
            yield place, "needs slot_s or bytes"
        if tenant not in tenants:
            yield place, f"no job is of the tenant {tenant!r}"


def _problems_of_priorities(scenario: scenarios.Scenario) -> _Problems:
    if models.member_of(scenario.cluster) is not None:
        # These refuse priorities altogether.
        return
    tenants = {job.tenant for job in scenario.jobs}
    for tenant in scenario.max_priorities:
        if tenant not in tenants:
            yield (
                f"max_priorities.{tenant}",
                f"no job is of the tenant {tenant!r}",
            )


def _problems_of_users(scenario: scenarios.Scenario) -> _Problems:
    if not scenario.users:
        return
    yield from _combination(scenario, "users")
    tenants = {job.tenant for job in scenario.jobs}
    for tenant, users in scenario.users.items():
        place = f"users.{tenant}"
        if users.sessions_per_user is None and not users.user_turns:
            yield place, "needs sessions_per_user or user_turns"
        if tenant not in tenants:
            yield place, f"no job is of the tenant {tenant!r}"


def _problems_of_outages(scenario: scenarios.Scenario) -> _Problems:
    if not scenario.outages:
        return
    yield from _combination(scenario, "outages")
    boards = set(scenario.cluster.fpga_hosts)
    last_ends_s: dict[int, float] = {}
    for at, outage in sorted(
        enumerate(scenario.outages), key=lambda each: each[1].start_s
    ):
        place, host = f"outages[{at}]", outage.host
        if host not in boards:
            yield f"{place}.host", f"host {host} has no board"
        end_s = math.inf if outage.end_s is None else outage.end_s
        if end_s <= outage.start_s:
            yield f"{place}.end_s", f"is not above {outage.start_s:g}"
        if outage.start_s < last_ends_s.get(host, 0.0):
            yield (
                f"{place}.start_s",
                f"lies within another outage of host {host}",
            )
        last_ends_s[host] = end_s


def _problems_of_reservations(scenario: scenarios.Scenario) -> _Problems:
    if not scenario.reservations:
        return
    member = models.member_of(scenario.cluster)
    if member is not None:
        yield "reservations", f"cannot be combined with cluster.{member}"
    if scenario.outages:
        yield "reservations", "cannot be combined with outages"
    boards = set(scenario.cluster.fpga_hosts)
    for at, one in enumerate(scenario.reservations):
        place = f"reservations[{at}]"
        yield from _problems_of_accelerator(
            one.accelerator, scenario.cluster, f"{place}.accelerator"
        )
        if one.end_s <= one.start_s:
            yield f"{place}.end_s", f"is not above {one.start_s:g}"
        period_s = reservation.PERIODS_S[one.repeat]
        if period_s and one.end_s - one.start_s > period_s:
            yield f"{place}.end_s", "is after the next start"
        if one.times > 1 and not period_s:
            yield f"{place}.times", "requires repeat: day or repeat: week"
        if one.times == 1 and period_s:
            yield f"{place}.repeat", "requires times: 2 or more"
        for host in one.hosts:
            if host not in boards:
                yield f"{place}.hosts", f"host {host} has no board"


def _problems_of_groups(scenario: scenarios.Scenario) -> _Problems:
    names: set[str] = set()
    for at, group in enumerate(scenario.groups):
        place = f"groups[{at}]"
        if group.name in names:
            yield f"{place}.name", f"{group.name!r} is used twice"
        names.add(group.name)
        yield from _problems_of_group(group, place)
    # The groups that exist at the start must fit into the cluster.
    wanted = sum(group.slots for group in scenario.groups if not group.goal)
    if scenario.jobs:
        wanted = scenario.group_slots + 1
    if wanted > scenario.slot_count:
        yield (
            "groups",
            f"the cluster has {scenario.slot_count} slots; the groups "
            f"{'and the jobs ' if scenario.jobs else ''}need at least "
            f"{wanted}",
        )


def _problems_of_group(group: scenarios.Group, place: str) -> _Problems:
    most = math.inf if group.max_size is None else group.max_size
    if not group.min_size <= group.slots <= most:
        yield (
            f"{place}.slots",
            f"{group.slots} is not between min_size ({group.min_size}) and "
            f"max_size ({most:g})",
        )
    if not group.clients:
        yield f"{place}.clients", "at least one is required"
    names: set[str] = set()
    for at, client in enumerate(group.clients):
        where = f"{place}.clients[{at}]"
        if client.name in names:
            yield f"{where}.name", f"{client.name!r} is used twice"
        names.add(client.name)
        batch_s = client.task_s * client.batch_tasks
        if client.window_s is not None and client.window_s < batch_s:
            yield (
                f"{where}.window_s",
                f"{client.window_s:g} is too small for a batch of "
                f"{batch_s:g} slot-seconds",
            )
        if (client.load is None) == (client.arrivals_s is None):
            yield where, "requires either load or arrivals_s"
        if not client.load and not client.arrivals_s:
            yield where, "no task ever arrives"
    goal = group.goal
    if goal is not None:
        if (goal.deadline_s is None) == (goal.rate_per_s is None):
            yield f"{place}.goal", "requires either deadline_s or rate_per_s"
        if goal.deadline_s is not None and goal.actions is None:
            yield f"{place}.goal.actions", "is required for a deadline"
