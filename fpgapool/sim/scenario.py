# SPDX-License-Identifier: Apache-2.0

"""Scenario files, ``fpgapool-scenario/1``: a cluster, strategies and jobs.

All sizes are in bytes, times in seconds, rates in bytes/s.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import typing

import msgspec

from fpgapool.core import thresholds
from fpgapool.sim import errors
from fpgapool.sim import files

FORMAT: typing.Final = "fpgapool-scenario/1"

_Positive = typing.Annotated[float, msgspec.Meta(gt=0)]
_NotNegative = typing.Annotated[float, msgspec.Meta(ge=0)]
_Count = typing.Annotated[int, msgspec.Meta(ge=1)]
_Number = typing.Annotated[int, msgspec.Meta(ge=0)]
_Name = typing.Annotated[str, msgspec.Meta(min_length=1)]


class _Record(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One object of the file."""


class AcceleratorProfile(_Record, frozen=True):
    """Loads of an accelerator's jobs on slots and links.

    :ivar peak_bytes_per_s: highest input rate of a slot.
    :ivar return_ratio: bytes sent back per byte of input.
    """

    peak_bytes_per_s: _Positive
    return_ratio: _NotNegative = 0.0


class HostOverride(_Record, frozen=True):
    """Values of one host; None: the same as everywhere."""

    slots_per_device: _Count | None = None
    dma_bytes_per_s: _Positive | None = None
    nic_bytes_per_s: _Positive | None = None


class Power(_Record, frozen=True):
    """Electrical power.

    :ivar device_idle_w: of a device while its slots are idle.
    :ivar device_active_w: of a device while all slots have jobs; in proportion
        while some have.
    :ivar host_w: of a host, with or without a device.
    """

    device_idle_w: _NotNegative = 0.0
    device_active_w: _NotNegative = 0.0
    host_w: _NotNegative = 0.0


class Cluster(_Record, frozen=True):
    """Hosts 0 … hosts − 1, some of which have a device.

    :ivar fpga_hosts: hosts with a device.
    :ivar slots_per_device: slots of each device.
    :ivar dma_bytes_per_s: rate that all slots of a device share.
    :ivar nic_bytes_per_s: rate of each host in each direction.
    :ivar reconfiguration_s: time to program another accelerator.
    :ivar host_overrides: by host, values that differ there.
    :ivar power: None: results have no energy.
    """

    hosts: _Count
    fpga_hosts: tuple[_Number, ...]
    accelerators: dict[_Name, AcceleratorProfile]
    slots_per_device: _Count = 4
    dma_bytes_per_s: _Positive = 2.1e9
    nic_bytes_per_s: _Positive = 1.25e9
    reconfiguration_s: _NotNegative = 0.0
    host_overrides: dict[_Number, HostOverride] = {}
    power: Power | None = None

    def slot_count(self, host: int) -> int:
        """Return the number of slots of a host with a device."""
        return self._of(host).slots_per_device or self.slots_per_device

    def dma_of(self, host: int) -> float:
        """Return the DMA rate of a host's device in bytes/s."""
        return self._of(host).dma_bytes_per_s or self.dma_bytes_per_s

    def nic_of(self, host: int) -> float:
        """Return the NIC rate of a host, each direction, in bytes/s."""
        return self._of(host).nic_bytes_per_s or self.nic_bytes_per_s

    def _of(self, host: int) -> HostOverride:
        return self.host_overrides.get(host, _AS_EVERYWHERE)


_AS_EVERYWHERE = HostOverride()


class StrategyOptions(_Record, frozen=True):
    """A strategy with options; an option that is None has its default.

    :ivar strategy: name of the installed strategy; None: the name that the
        scenario gives it.
    :ivar seed: of random choices; None: the run's.
    :ivar own: options that only this strategy has, by name.
    """

    strategy: _Name | None = None
    seed: _Number | None = None
    remote_limit: _Number | None = None
    skip_limit: _Number | None = None
    wait_s_per_byte: _NotNegative | None = None
    fallback: bool | None = None
    thresholds_bytes: tuple[_Positive, ...] | None = None
    E_bytes: _Positive | None = None
    q: _Positive | None = None
    k1: _Count | None = None
    k2: _Count | None = None
    queues: _Count | None = None
    slot_choice: _Name = "index"
    offer_order: _Name = "index"
    own: dict[_Name, bool | int | float | str] = {}

    def options(self) -> dict[str, object]:
        """Return the options by name, for the strategy's factory."""
        shared = {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if name not in ("strategy", "seed", "own") and value is not None
        }
        return {**shared, **self.own}


@dataclasses.dataclass(frozen=True)
class Queues:
    """Parameters of queues, see :mod:`fpgapool.core.thresholds`."""

    E_bytes: float = 20e6
    q: float = 1.41
    k1: int = 5
    k2: int = 16
    queues: int = 20

    @property
    def thresholds_bytes(self) -> tuple[float, ...]:
        """Return the upper bounds of all queues but the last."""
        return thresholds.hybrid_thresholds(*dataclasses.astuple(self))


#: For sizes that vary about exponentially, and for heavy tails.
SHORT_TAIL = Queues()
LONG_TAIL = Queues(E_bytes=26e6, q=1.8, k1=10, k2=11)


class JobSpec(_Record, frozen=True):
    """One request for an accelerator.

    :ivar host: the host of its data; None: a machine outside of the cluster.
    """

    id: int
    host: _Number | None
    size_bytes: _Positive
    arrival_s: _NotNegative
    accelerator: str
    tenant: str = ""


class JobOutcome(msgspec.Struct, frozen=True):
    """The result of a job.

    :ivar host: the host of its slot.
    :ivar slot: number of the slot on this host.
    :ivar local: whether it is the job's own host.
    """

    id: int
    start_s: float
    finish_s: float
    host: int
    slot: int
    local: bool


class Outcome(msgspec.Struct, frozen=True):
    """The results of all jobs under a strategy.

    :ivar metrics: by name: ``act_s``, ``tct95_s``, ``sar``, ``dlr`` and
        ``makespan_s``.
    """

    jobs: list[JobOutcome]
    metrics: dict[str, float]


class Scenario(_Record, frozen=True):
    """A whole file.

    :ivar strategies: by name. Files may call them ``policies``.
    :ivar wakeups: whether a job causes a scheduling pass by itself as soon as
        it has waited for its own host for long enough.
    :ivar expected: worked results, by strategy.
    """

    format: typing.Literal["fpgapool-scenario/1"]
    cluster: Cluster
    strategies: dict[_Name, StrategyOptions]
    jobs: list[JobSpec]
    name: str = ""
    note: str = ""
    wakeups: bool = False
    expected: dict[str, Outcome] | None = None


def read(path: pathlib.Path) -> Scenario:
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


def _decode(text: str) -> Scenario:
    try:
        return msgspec.json.decode(text, type=Scenario)
    except msgspec.DecodeError:
        # Slower, but this says where the text stops being JSON, and accepts
        # NaN, so that the check of its member refuses it.
        document = accept_old_name(json.loads(text))
        return msgspec.convert(document, Scenario, str_keys=True)


def accept_old_name(document: typing.Any) -> typing.Any:
    """Rename ``policies``, as older files call the strategies.

    :param document: a file's content; is changed.
    """
    if isinstance(document, dict) and "policies" in document:
        document.setdefault("strategies", document.pop("policies"))
    return document


def write(scenario: Scenario, path: pathlib.Path) -> None:
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


def check(scenario: Scenario, source: str) -> None:
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
    _check_jobs(scenario, source)


def _check_cluster(cluster: Cluster, source: str) -> None:
    for place in ("dma_bytes_per_s", "nic_bytes_per_s"):
        _check_finite(getattr(cluster, place), f"cluster.{place}", source)
    for name, profile in cluster.accelerators.items():
        where = f"cluster.accelerators.{name}"
        _check_finite(
            profile.peak_bytes_per_s, f"{where}.peak_bytes_per_s", source
        )
        _check_finite(profile.return_ratio, f"{where}.return_ratio", source)
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


def _check_host(host: int, cluster: Cluster, place: str, source: str) -> None:
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
    strategy: StrategyOptions, place: str, source: str
) -> None:
    bounds = strategy.thresholds_bytes or ()
    for at in range(1, len(bounds)):
        if not bounds[at - 1] < bounds[at]:
            raise errors.InputError(
                source,
                f"{place}.thresholds_bytes[{at}]",
                f"{bounds[at]:g} is not above {bounds[at - 1]:g}",
            )


def _check_jobs(scenario: Scenario, source: str) -> None:
    cluster = scenario.cluster
    if not scenario.jobs:
        raise errors.InputError(
            source, "jobs", "there are none; add at least one"
        )
    if not cluster.fpga_hosts:
        raise errors.InputError(
            source,
            "cluster.fpga_hosts",
            "is empty; jobs need a host with a board",
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
