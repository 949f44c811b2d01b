# SPDX-License-Identifier: Apache-2.0

"""The interface of engines, which move the jobs' data."""

from __future__ import annotations

import abc
import typing
from collections.abc import Sequence

from fpgapool.sim.inputs import scenario


class Slot(typing.NamedTuple):
    """A slot of the simulated cluster.

    :ivar number: its number among all slots of the cluster, from 0.
    :ivar place: its number among the slots of its host.
    """

    number: int
    device: int
    host: int
    place: int


class Transfer(typing.NamedTuple):
    """The data of a job.

    :ivar source: the host that sends the data and gets the results; None: a
        machine outside the cluster.
    :ivar peak_bytes_per_s: the slot's highest input rate.
    :ivar return_ratio: bytes sent back per byte of input.
    """

    source: int | None
    size_bytes: float
    peak_bytes_per_s: float
    return_ratio: float


class Engine(abc.ABC):
    """Moves data through DMA pipes and NICs, all times in seconds."""

    @abc.abstractmethod
    def start(self, slot: Slot, transfer: Transfer, now: float) -> None:
        """Start work in a slot; the next `settle` gives it a rate."""

    @abc.abstractmethod
    def settle(self, now: float) -> None:
        """Share the pipes among all working slots."""

    @abc.abstractmethod
    def advance(self, limit_s: float) -> tuple[float, list[int]]:
        """Continue until slots have finished, but not beyond a time.

        :returns: the new time, and the numbers of the slots that have just
            finished, in ascending order.
        """

    @abc.abstractmethod
    def rates(self) -> typing.Any:
        """Return the rate of each slot's input in bytes/s.

        :returns: a list, or an array once the engine is compiled.
        """


class Pipes:
    """Numbers of the resources of a cluster: DMA pipes, then NICs.

    A device's DMA pipe has the number of the device.
    """

    def __init__(self, cluster: scenario.Cluster) -> None:
        hosts = range(cluster.hosts)
        nics = [cluster.nic_of(host) for host in hosts]
        #: The numbers of host 0's; those of other hosts follow.
        self.first_egress = len(cluster.fpga_hosts)
        self.first_ingress = self.first_egress + cluster.hosts
        self.capacities_bytes_per_s = [
            *(cluster.dma_of(host) for host in sorted(cluster.fpga_hosts)),
            *nics,
            *nics,
        ]

    def egress(self, host: int) -> int:
        return self.first_egress + host

    def ingress(self, host: int) -> int:
        return self.first_ingress + host

    def route(
        self,
        source: int | None,
        slots: Sequence[Slot],
        ratios: Sequence[float],
    ) -> dict[int, float]:
        """Return what data uses that goes through slots, one by one, and back.

        :param source: the host that sends the data and gets the results; None:
            a machine outside the cluster.
        :param ratios: bytes of input of each slot and, last, bytes of results,
            per byte that is sent.
        :returns: by pipe, bytes on it per byte that is sent.
        """
        costs: dict[int, float] = {}

        def add(pipe: int, ratio: float) -> None:
            costs[pipe] = costs.get(pipe, 0.0) + ratio

        def move(sender: int | None, receiver: int | None, at: int) -> None:
            if sender != receiver and ratios[at] > 0.0:
                if sender is not None:
                    add(self.egress(sender), ratios[at])
                if receiver is not None:
                    add(self.ingress(receiver), ratios[at])

        host = source
        for at, slot in enumerate(slots):
            move(host, slot.host, at)
            add(slot.device, ratios[at])
            host = slot.host
        move(host, source, len(slots))
        return costs


def slots_of(cluster: scenario.Cluster) -> list[Slot]:
    """Return all slots of a cluster, by host, then by number."""
    slots: list[Slot] = []
    for device, host in enumerate(sorted(cluster.fpga_hosts)):
        first = len(slots)
        slots += [
            Slot(first + place, device, host, place)
            for place in range(cluster.slot_count(host))
        ]
    return slots
