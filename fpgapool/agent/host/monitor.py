# SPDX-License-Identifier: Apache-2.0

"""The rate and the counters of a host's network device.

A separate thread queries netlink, so that a driver that hangs in the kernel
does not block the agent. This needs no privileges.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import threading
import time
import typing

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: 10 Gb/s, assumed if neither the operator nor the kernel provides a rate.
UNKNOWN_NIC_BYTES_PER_S = 1.25e9

MBIT_BYTES = 125_000

#: Interval at which the rate is read again: it may change, for example when a
#: cable is replaced or a bond loses a member.
SPEED_INTERVAL_S = 60.0

LOOPBACK_DEVICE = "lo"


@dataclasses.dataclass(frozen=True, slots=True)
class NicReading:
    """One reading of the network device.

    :ivar rx_bytes: bytes received since the device was created.
    :ivar rate_known: whether the rate is known; False if it is only assumed.
    """

    device: str | None
    bytes_per_s: float
    rx_bytes: int = 0
    tx_bytes: int = 0
    rate_known: bool = True


class NetlinkKernel:
    """Queries the kernel through pyroute2, with a new socket for each query.

    Any method may raise any exception.
    """

    def find_device(self, address: str | None) -> str | None:
        """Return the device with an address, or that of the default route.

        :param address: address of this host; None for the default route.
        :returns: the device's name, or None.
        """
        import pyroute2

        with pyroute2.IPRoute() as route:
            index = None
            if address is not None:
                for entry in route.get_addr(address=_plain(address)):
                    index = entry["index"]
            if index is None:
                index = _default_route(route)
            if index is None:
                return None
            return route.get_links(index)[0].get_attr("IFLA_IFNAME")

    def counters(self, device: str) -> tuple[int, int]:
        """Return the numbers of bytes received and sent."""
        import pyroute2

        with pyroute2.IPRoute() as route:
            link = route.get_links(ifname=device)[0]
            stats = link.get_attr("IFLA_STATS64")
            return int(stats["rx_bytes"]), int(stats["tx_bytes"])

    def speed_bytes_per_s(self, device: str) -> float | None:
        """Return the rate of the link, or None if it is unknown."""
        from pyroute2 import ethtool

        tool = ethtool.Ethtool()
        try:
            mbit_per_s = tool.get_link_mode(device).speed
        finally:
            tool.close()
        # Drivers report an unknown speed as None, 0 or a value with all bits
        # set.
        if not mbit_per_s or mbit_per_s >= 2**31:
            return None
        return float(mbit_per_s) * MBIT_BYTES


def _default_route(route: typing.Any) -> int | None:
    for family in (2, 10):
        for entry in route.get_default_routes(family=family):
            index = entry.get_attr("RTA_OIF")
            if index is not None:
                return int(index)
    return None


def _plain(address: str) -> str:
    return str(ipaddress.ip_address(address))


class NicMonitor:
    """Reads the network device periodically.

    :param device: the configured name; None to find the device.
    :param bytes_per_s: the configured rate; 0 to query the kernel.
    """

    def __init__(
        self,
        *,
        interval_s: float,
        device: str | None = None,
        bytes_per_s: float = 0.0,
        data_address: str | None = None,
        kernel: NetlinkKernel | None = None,
    ) -> None:
        self._interval_s = interval_s
        self._given_device = device
        self._given_bytes_per_s = bytes_per_s
        self._data_address = data_address
        self._kernel = kernel or NetlinkKernel()
        self._reading = NicReading(
            device,
            bytes_per_s or UNKNOWN_NIC_BYTES_PER_S,
            rate_known=bool(bytes_per_s),
        )
        self._speed_due_s = -math.inf
        self._complaint: str | None = None
        self._stopping = threading.Event()
        self._first = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="nic-monitor", daemon=True
        )

    @property
    def reading(self) -> NicReading:
        """The last successful reading."""
        return self._reading

    def start(self, timeout_s: float = 1.0) -> None:
        """Start reading.

        :param timeout_s: maximum time to wait for the first reading.
        """
        self._thread.start()
        self._first.wait(timeout_s)

    def stop(self, timeout_s: float) -> None:
        self._stopping.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            self.read(time.monotonic())
            self._first.set()
            if self._stopping.wait(self._interval_s):
                return

    def read(self, now: float) -> None:
        try:
            if now >= self._speed_due_s:
                self._speed_due_s = now + SPEED_INTERVAL_S
                self._read_speed()
            self._read_counters()
        except Exception as error:
            # A netlink failure must not stop the agent.
            self._complain(f"cannot be read: {error!r}")

    def _read_speed(self) -> None:
        device = self._given_device or self._kernel.find_device(
            self._data_address
        )
        known_bytes_per_s = self._known_rate(device)
        self._reading = dataclasses.replace(
            self._reading,
            device=device,
            bytes_per_s=known_bytes_per_s or UNKNOWN_NIC_BYTES_PER_S,
            rate_known=known_bytes_per_s is not None,
        )

    def _known_rate(self, device: str | None) -> float | None:
        if self._given_bytes_per_s:
            return self._given_bytes_per_s
        speed_bytes_per_s = None
        if device is not None and device != LOOPBACK_DEVICE:
            try:
                speed_bytes_per_s = self._kernel.speed_bytes_per_s(device)
            except Exception as error:
                LOG.debug("Cannot read the speed of %s: %r", device, error)
        if speed_bytes_per_s is None:
            self._complain(
                f"has no known rate; assuming "
                f"{UNKNOWN_NIC_BYTES_PER_S:.3g} bytes/s; "
                "set [agent] nic_bytes_per_s to the actual rate"
            )
        return speed_bytes_per_s

    def _read_counters(self) -> None:
        device = self._reading.device
        if device is None:
            return
        rx_bytes, tx_bytes = self._kernel.counters(device)
        self._reading = dataclasses.replace(
            self._reading, rx_bytes=rx_bytes, tx_bytes=tx_bytes
        )

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            LOG.warning(
                "Network device %s %s", self._reading.device, complaint
            )
        self._complaint = complaint
