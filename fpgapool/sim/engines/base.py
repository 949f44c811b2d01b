# SPDX-License-Identifier: Apache-2.0

"""What a simulation asks of the model that moves the jobs' data."""

from __future__ import annotations

import abc
import typing

from fpgapool.sim import scenario


class Slot(typing.NamedTuple):
    """A slot of the simulated cluster.

    :ivar number: over all slots of the cluster, from 0.
    :ivar device: number of its device, from 0.
    :ivar host: its host.
    :ivar place: number over the slots of its host.
    """

    number: int
    device: int
    host: int
    place: int


class Transfer(typing.NamedTuple):
    """What has to be carried for a job.

    :ivar source: the host that sends and gets the data back; None: outside
        of the cluster.
    :ivar peak_bytes_per_s: input that the slot takes at most.
    :ivar return_ratio: bytes that are sent back per byte of input.
    """

    source: int | None
    size_bytes: float
    peak_bytes_per_s: float
    return_ratio: float


class Engine(abc.ABC):
    """Moves data through DMA pipes and NICs, all times in seconds."""

    @abc.abstractmethod
    def start(self, slot: Slot, transfer: Transfer, now: float) -> None:
        """Let a slot work; it is part of the sharing from `settle` on."""

    @abc.abstractmethod
    def settle(self, now: float) -> None:
        """Share the pipes among all that work now."""

    @abc.abstractmethod
    def advance(self, limit_s: float) -> tuple[float, list[int]]:
        """Go on until slots are done, but not beyond a time.

        :returns: the time that it is, and the numbers of the slots that are
            done, in ascending order; they do not work any more.
        """

    @abc.abstractmethod
    def rates(self) -> list[float]:
        """Bytes/s of input that each slot takes in now."""


class Pipes:
    """Numbers of the resources of a cluster: DMA pipes, then NICs.

    :ivar capacities_bytes_per_s: of each.
    """

    def __init__(self, cluster: scenario.Cluster) -> None:
        hosts = range(cluster.hosts)
        nics = [cluster.nic_of(host) for host in hosts]
        self._devices = len(cluster.fpga_hosts)
        self._hosts = cluster.hosts
        self.capacities_bytes_per_s = [
            *(cluster.dma_of(host) for host in sorted(cluster.fpga_hosts)),
            *nics,
            *nics,
        ]

    def dma(self, device: int) -> int:
        """The DMA pipe of a device."""
        return device

    def egress(self, host: int) -> int:
        """What a host sends through."""
        return self._devices + host

    def ingress(self, host: int) -> int:
        """What a host receives through."""
        return self._devices + self._hosts + host


def slots_of(cluster: scenario.Cluster) -> list[Slot]:
    """All slots of a cluster, by host, then by number."""
    slots: list[Slot] = []
    for device, host in enumerate(sorted(cluster.fpga_hosts)):
        first = len(slots)
        slots += [
            Slot(first + place, device, host, place)
            for place in range(cluster.slot_count(host))
        ]
    return slots
