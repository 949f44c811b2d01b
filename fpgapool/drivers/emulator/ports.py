# SPDX-License-Identifier: Apache-2.0

"""The DMA pipes and NICs that an emulated host's streams use."""

from __future__ import annotations

import collections

from fpgapool.drivers import base
from fpgapool.drivers.emulator import boards
from fpgapool.drivers.emulator import shares


class Ports:
    """One host's DMA pipes and NIC in the table that a cluster shares.

    :param several_hosts: whether other hosts also use the table. If not, the
        other end of remote streams is not modelled.
    """

    def __init__(
        self, table: shares.ShareTable, host_uuid: str, several_hosts: bool
    ) -> None:
        self.table = table
        self._host_uuid = host_uuid
        self._several_hosts = several_hosts
        self._nic_bytes_per_s = boards.DEFAULT_NIC_BYTES_PER_S

    def declare(self, found: boards.Boards) -> None:
        """Declare the capacities of this host's DMA pipes and NIC.

        :raises shares.TableFull: if the cluster is too large.
        """
        self._nic_bytes_per_s = found.scaled(found.nic_bytes_per_s)
        for name in (_ingress(self._host_uuid), _egress(self._host_uuid)):
            self.table.declare(name, self._nic_bytes_per_s)
        for board in found.boards:
            self.table.declare(
                _dma(self._host_uuid, board.name),
                found.scaled(board.dma_bytes_per_s),
            )

    def join(
        self,
        device: str,
        slot: int,
        traffic: base.Traffic,
        peak_bytes_per_s: float,
        return_ratio: float,
    ) -> int:
        """Add the stream of a slot's next session.

        A local stream uses only the DMA pipe. A remote stream also uses the
        network path to this host and, for its output, the path back.

        :raises shares.TableFull: if the cluster is too large.
        """
        here = self._host_uuid
        uses: dict[int, float] = collections.defaultdict(float)
        uses[self._number(_dma(here, device))] += 1
        if not traffic.local:
            uses[self._number(_ingress(here))] += 1
            uses[self._number(_egress(here))] += return_ratio
        if not traffic.local and traffic.origin_host_uuid is not None:
            origin = traffic.origin_host_uuid
            if self._several_hosts:
                uses[self._number(_egress(origin))] += 1
                uses[self._number(_ingress(origin))] += return_ratio
        return self.table.join(
            f"{here}/{device}/{slot}", peak_bytes_per_s, uses
        )

    def _number(self, name: str) -> int:
        # A host without boards declares nothing, so assume that its NIC is
        # like this host's.
        return self.table.declare(name, self._nic_bytes_per_s, is_owner=False)

    def busy_slots(self, device: str, now_ns: int) -> int:
        return self.table.busy_users(
            self._number(_dma(self._host_uuid, device)), now_ns
        )


def _dma(host_uuid: str, device: str) -> str:
    return f"dma/{host_uuid}/{device}"


def _ingress(host_uuid: str) -> str:
    return f"ingress/{host_uuid}"


def _egress(host_uuid: str) -> str:
    return f"egress/{host_uuid}"
