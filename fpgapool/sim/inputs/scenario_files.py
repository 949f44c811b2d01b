# SPDX-License-Identifier: Apache-2.0

"""Reads, checks and writes scenario files."""

from __future__ import annotations

import difflib
import json
import math
import pathlib
import re
import typing
from collections.abc import Callable

import msgspec

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim.inputs import scenario as scenarios
from reproduction.models import containers


def read(path: pathlib.Path) -> scenarios.Scenario:
    """Read a scenario file.

    :raises errors.InputError: if it cannot be read, or cannot be simulated.
    """
    source = str(path)
    scenario = _decode(files.read_text(path).encode(), source)
    check(scenario, source)
    return scenario


def write(scenario: scenarios.Scenario, path: pathlib.Path) -> None:
    """Write a scenario file, as a whole or not at all.

    :raises errors.InputError: if it cannot be written, or would be larger
        than files may be.
    """
    text = msgspec.json.format(msgspec.json.encode(scenario), indent=1)
    files.check_size(path, len(text) + 1)
    files.write(path, text + b"\n")


def check_all(scenario: scenarios.Scenario, source: str) -> None:
    """Check a scenario that no file had, as :func:`read` does.

    :param source: names it in messages.
    :raises errors.InputError: if it cannot be simulated.
    """
    check(_decode(msgspec.json.encode(scenario), source), source)


# Longer files have been generated.
_MOST_WRITTEN_BYTES = 8 * 1024 * 1024


class _Members(dict[str, typing.Any]):
    """The members of an object.

    :ivar twice: the first one that it has more than once.
    """

    def __init__(self, pairs: list[tuple[str, typing.Any]]) -> None:
        super().__init__()
        self.twice: str | None = None
        for key, value in pairs:
            if key in self:
                self.twice = self.twice or key
            self[key] = value


def _check_keys(text: bytes, source: str) -> None:
    """Check that no object has a key twice; JSON would take the last value.

    :raises errors.InputError: if one has.
    """
    if len(text) > _MOST_WRITTEN_BYTES:
        return
    try:
        document = json.loads(text, object_pairs_hook=_Members)
    except ValueError:
        # It is told where it stops being JSON.
        return
    unseen = [("", document)]
    while unseen:
        place, value = unseen.pop()
        if isinstance(value, _Members):
            if value.twice is not None:
                place = f"{place}.{value.twice}".removeprefix(".")
                raise errors.InputError(source, place, "is given twice")
            unseen += [(f"{place}.{key}", one) for key, one in value.items()]
        elif isinstance(value, list):
            unseen += [(f"{place}[{at}]", one) for at, one in enumerate(value)]


def _decode(text: bytes, source: str) -> scenarios.Scenario:
    try:
        _check_keys(text, source)
        return _converted(text, source, _from_json)
    except RecursionError:
        raise errors.InputError(source, "", "is nested too deeply") from None
    except msgspec.DecodeError as error:
        offset = _offset(text, str(error))
        if text.startswith(_NOT_IN_JSON, offset):
            # The check of its member refuses it.
            _converted(json.loads(text), source, _from_plain)
        raise errors.InputError(
            source, *_malformed(text, offset, str(error))
        ) from error


#: What Python's own JSON has besides.
_NOT_IN_JSON = (b"NaN", b"Infinity")

_Text = typing.TypeVar("_Text")


def _from_json(
    text: bytes, kind: type[scenarios.Scenario]
) -> scenarios.Scenario:
    return msgspec.json.decode(text, type=kind)


def _from_plain(
    document: object, kind: type[scenarios.Scenario]
) -> scenarios.Scenario:
    return msgspec.convert(document, kind, str_keys=True)


def _converted(
    text: _Text,
    source: str,
    convert: Callable[[_Text, type[scenarios.Scenario]], scenarios.Scenario],
) -> scenarios.Scenario:
    """Convert a file, or its plain values, to a scenario.

    :raises errors.InputError: if it is none.
    """
    kind: type[scenarios.Scenario] = scenarios.Scenario
    try:
        try:
            return convert(text, kind)
        except msgspec.ValidationError as error:
            if f"`{scenarios.OldScenario.word}`" not in str(error):
                raise
            kind = scenarios.OldScenario
            return convert(text, kind)
    except msgspec.ValidationError as error:
        document = (
            msgspec.json.decode(text) if isinstance(text, bytes) else text
        )
        if isinstance(document, dict) and "$.jobs" not in str(error):
            # Not to be converted again for each member that may be wrong.
            document["jobs"] = []
        raise errors.InputError(
            source,
            *place_and_reason(
                error,
                document,
                lambda: _from_plain(document, kind),
            ),
        ) from error


def _offset(text: bytes, message: str) -> int:
    """Return where msgspec says that a text stops being JSON."""
    _, _, at = message.partition(" (byte ")
    return int(at.removesuffix(")")) if at else len(text)


def _malformed(text: bytes, offset: int, message: str) -> tuple[str, str]:
    """Return where a text stops being JSON, and why."""
    reason, _, _ = message.partition(" (byte ")
    line = text.count(b"\n", 0, offset) + 1
    column = offset - text.rfind(b"\n", 0, offset)
    seen = text[offset : offset + 10].decode(errors="replace")
    if seen:
        reason += f", at {seen!r}"
    return f"line {line} column {column}", reason


def place_and_reason(
    error: msgspec.ValidationError,
    document: typing.Any,
    convert: Callable[[], object],
) -> tuple[str, str]:
    """Split msgspec's ``Expected … - at `$.jobs[3].host```.

    It has ``[...]`` for the key of a mapping; the result has the key.

    :param document: what was converted, as plain values.
    :param convert: converts the document once more.
    """
    message = str(error)
    reason, _, place = message.partition(" - at ")
    place = place.replace("`", "")
    if _SOME_KEY in place:
        place = _with_keys(place, message, document, convert)
    place = place.replace("$.", "").replace("$", "")
    unknown = _UNKNOWN.fullmatch(reason)
    if unknown is None:
        return place, reason[:1].lower() + reason[1:]
    name = unknown[1]
    if not place.startswith(_OPTIONS):
        return place, f"unknown member {name}"
    close = difflib.get_close_matches(
        name, scenarios.StrategyOptions.__struct_fields__, 1
    )
    hint = f"; did you mean {close[0]}?" if close else ""
    return place, f"unknown option {name}{hint}"


_SOME_KEY = "[...]"
_UNKNOWN = re.compile("Object contains unknown field `(.*)`")
_OPTIONS = tuple(
    f"{kind.word}." for kind in (scenarios.Scenario, scenarios.OldScenario)
)


def _with_keys(
    place: str,
    message: str,
    document: typing.Any,
    convert: Callable[[], object],
) -> str:
    """Replace ``[...]`` by the keys whose values cause the error."""
    parts, at = [], document
    for part in re.findall(r"\[\.\.\.\]|\[\d+\]|[^.\[\]]+", place):
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
    """Return the key of a part of the document that causes an error."""
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


def check(scenario: scenarios.Scenario, source: str) -> None:
    """Check that a scenario can be simulated.

    :param source: its file, for the message.
    :raises errors.InputError: if it cannot.
    """
    _check_cluster(scenario.cluster, source)
    if scenario.slot_count > scenarios.MAX_SLOTS:
        raise errors.InputError(
            source,
            "cluster",
            f"has {scenario.slot_count} slots, more than "
            f"{scenarios.MAX_SLOTS}",
        )
    if not scenario.strategies:
        raise errors.InputError(
            source, scenario.word, "there are none; add at least one"
        )
    for name, strategy in scenario.strategies.items():
        place = scenario.place(name)
        _check_thresholds(strategy, place, source)
        _check_preemption(scenario.cluster, strategy, place, source)
        if strategy.elasticity is not None and not scenario.groups:
            raise errors.InputError(
                source,
                f"{place}.elasticity",
                "there are no groups",
            )
    _check_jobs(scenario, source)
    _check_without_cores(scenario, source)
    _check_groups(scenario, source)
    containers.check(scenario, source)


def _check_cluster(cluster: scenarios.Cluster, source: str) -> None:
    for name, profile in cluster.accelerators.items():
        where = f"cluster.accelerators.{name}"
        if profile.cpu_bytes_per_s not in (None, profile.core_bytes_per_s):
            raise errors.InputError(
                source,
                f"{where}.cpu_bytes_per_s",
                "differs from that of the platform cpu",
            )
        for member, value in (
            ("cpu_bytes_per_s", profile.core_bytes_per_s),
            ("quantum_bytes", profile.quantum_bytes),
        ):
            if value is None and cluster.cores_per_host is not None:
                raise errors.InputError(
                    source,
                    f"{where}.{member}",
                    "is missing; hosts with cores need it",
                )
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
    place: str,
    source: str,
) -> None:
    has_cores = cluster.cores_per_host is not None
    if strategy.deadline_action not in (None, "continue") and not has_cores:
        raise errors.InputError(
            source, f"{place}.deadline_action", "needs cluster.cores_per_host"
        )
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


def _check_without_cores(scenario: scenarios.Scenario, source: str) -> None:
    """Check that hosts with cores have no priorities and no claims."""
    if scenario.cluster.cores_per_host is None:
        return
    given = [
        f"jobs[{at}].{member}"
        for at, job in enumerate(scenario.jobs)
        for member in ("priority", "claimed_bytes")
        if getattr(job, member)
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
    if not client.load and not client.arrivals_s:
        raise errors.InputError(source, place, "no task ever arrives")


def _check_goal(goal: scenarios.Goal, place: str, source: str) -> None:
    if (goal.deadline_s is None) == (goal.rate_per_s is None):
        raise errors.InputError(
            source, place, "needs either deadline_s or rate_per_s"
        )
    if goal.deadline_s is not None and goal.actions is None:
        raise errors.InputError(
            source, f"{place}.actions", "is missing; a deadline needs it"
        )
