# SPDX-License-Identifier: Apache-2.0

"""Link protection: limits the data plane to its share of the link.

A separate thread regularly reconciles the kernel's state with the settings,
because links go up and down. If that fails, the agent continues without a cap
and reports the problem.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import threading
import typing
from collections.abc import Callable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool import privsep
from fpgapool.agent.host import monitor
from fpgapool.common import exception
from fpgapool.vocabulary import exceptions

LOG = logging.getLogger(__name__)

CHECK_INTERVAL_S = 10.0

#: Interval after a failure. It is long, because each start of the privileged
#: process adds a line to the host's security log.
FAILURE_INTERVAL_S = 300.0

# Reasons for a missing cap, in addition to those of fpgapool.privsep.cap.
ADDRESS_MISSING = "ADDRESS_MISSING"
LOOPBACK = "LOOPBACK"
RATE_UNKNOWN = "RATE_UNKNOWN"
RATE_TOO_LOW = "RATE_TOO_LOW"
PRIVSEP_FAILED = "PRIVSEP_FAILED"

DIRECTIONS = ("outgoing", "incoming")


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """The share of the link that the data plane may use in each direction.

    :ivar percent: percentage of the link's rate; 0 if a rate is configured.
    :ivar bytes_per_s: the rate; 0 if a percentage is configured.
    """

    ports: range
    percent: float = 0.0
    bytes_per_s: float = 0.0


def share(
    *,
    percent: float,
    bytes_per_s: float,
    data_address: str | None,
    data_ports: str,
) -> Share | None:
    """Check the share that the operator configured.

    :returns: the share, or None for no cap.
    """
    if not percent and not bytes_per_s:
        return None
    if percent and bytes_per_s:
        raise _invalid(
            "set data_share_percent or data_rate_bytes_per_s, not both"
        )
    lowest, highest = privsep.MIN_CAP_BYTES_PER_S, privsep.MAX_CAP_BYTES_PER_S
    if bytes_per_s and not lowest <= bytes_per_s <= highest:
        raise _invalid(
            f"data_rate_bytes_per_s must be 0 or between {lowest} and"
            f" {highest}"
        )
    if data_address is None:
        raise _invalid("a cap on the data plane requires data_address")
    return Share(_ports(data_ports), percent, bytes_per_s)


def _ports(text: str) -> range:
    first, _, last = text.partition("-")
    ports = range(int(first), int(last or first) + 1)
    if not ports or ports.start == 0 or ports.stop > 2**16:
        raise _invalid(
            "a cap on the data plane identifies packets by their ports, so "
            f"data_ports must be a port or a range of ports, not {text!r}"
        )
    return ports


def _invalid(reason: str) -> exception.ConfigurationError:
    return exception.ConfigurationError(reason=f"[agent] {reason}")


@dataclasses.dataclass(frozen=True, slots=True)
class LinkState:
    """The state of the cap.

    :ivar bytes_per_s: the cap in directions without a problem; 0 for none.
    :ivar problems: the reasons why there is no cap, by direction.
    """

    device: str | None = None
    bytes_per_s: int = 0
    problems: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict
    )

    @property
    def message(self) -> str | None:
        """The problems as human-readable text, or None."""
        texts = (
            f"{direction}: {one['message']} ({one['code']})"
            for direction, one in self.problems.items()
        )
        return "; ".join(texts) or None


class PrivilegedKernel:
    """Reads the state directly; the privileged process makes the changes.

    Any method may raise any exception.
    """

    def find_network(self, address: str) -> tuple[str, str] | None:
        """Return the device that has an address, and its network prefix."""
        import pyroute2

        plain = ipaddress.ip_address(address)
        with pyroute2.IPRoute() as route:
            for entry in route.get_addr(address=str(plain)):
                (link,) = route.get_links(entry["index"])
                network = ipaddress.ip_network(
                    f"{plain}/{entry['prefixlen']}", strict=False
                )
                return link.get_attr("IFLA_IFNAME"), str(network)
        return None

    def cap(
        self, device: str, bytes_per_s: int, network: str, ports: range
    ) -> Mapping[str, typing.Any]:
        from fpgapool.privsep import link

        outcome: Mapping[str, typing.Any] = link.put_cap(
            device, bytes_per_s, network, ports.start, ports.stop - 1
        )
        return outcome

    def uncap(self) -> None:
        from fpgapool.privsep import link

        link.remove_cap()

    def is_capped(self, device: str) -> bool:
        from fpgapool.privsep import cap
        from fpgapool.privsep import tc

        with tc.TrafficControl() as control:
            return cap.Cap(control).is_on(device)


class _NoCap(exceptions.PicklableError):
    """Neither direction can be capped now."""

    def __init__(self, device: str | None, code: str, message: str) -> None:
        super().__init__(message)
        self.device = device
        self.code = code


class LinkProtection:
    """Keeps the cap as the operator's settings require.

    :param wish: the share, or None for no cap, in which case a cap left by an
        earlier agent is removed.
    :param device: device that the operator configured; by default, the device
        that has the address.
    """

    def __init__(
        self,
        wish: Share | None,
        *,
        data_address: str | None,
        device: str | None,
        reading: Callable[[], monitor.NicReading],
        remove_at_stop: bool = False,
        kernel: PrivilegedKernel | None = None,
    ) -> None:
        self._wish = wish
        self._data_address = data_address
        self._given_device = device
        self._reading = reading
        self._remove_at_stop = remove_at_stop
        self._kernel = kernel or PrivilegedKernel()
        self._state = LinkState()
        self._known_rate: tuple[str | None, float] = (None, 0.0)
        self._stopping = threading.Event()
        self._first = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="link-protection", daemon=True
        )

    @property
    def state(self) -> LinkState:
        return self._state

    def start(self, timeout_s: float = 5.0) -> None:
        """Set the cap, and keep it set.

        :param timeout_s: maximum time to wait for the cap, which should be set
            before data flows.
        """
        self._thread.start()
        if self._wish is not None:
            self._first.wait(timeout_s)

    def stop(self, timeout_s: float) -> None:
        """Stop checking, and remove the cap if the settings require that."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        if self._wish is None:
            self.remove_left_over()
            return
        stopping = False
        while not stopping:
            delay_s = self.check()
            self._first.set()
            stopping = self._stopping.wait(delay_s)
        if self._remove_at_stop:
            self.remove()

    def check(self) -> float:
        """Reconcile the kernel's state with the settings.

        :returns: seconds until the next check.
        """
        if self._wish is None:
            return CHECK_INTERVAL_S
        try:
            self._put(self._wish)
        except _NoCap as error:
            self._set_state(_failed(error.device, error.code, str(error)))
        except Exception as error:
            # A missing permission, a missing program or a kernel without
            # traffic control must not stop the agent.
            device = self._given_device or self._state.device
            self._set_state(_failed(device, PRIVSEP_FAILED, repr(error)))
            return FAILURE_INTERVAL_S
        return CHECK_INTERVAL_S

    def _put(self, wish: Share) -> None:
        device, network = self._link()
        bytes_per_s = self._rate_bytes_per_s(wish, device)
        if bytes_per_s < privsep.MIN_CAP_BYTES_PER_S:
            raise _NoCap(
                device,
                RATE_TOO_LOW,
                f"a cap of {bytes_per_s} bytes/s is below the minimum of"
                f" {privsep.MIN_CAP_BYTES_PER_S} bytes/s",
            )
        outcome = self._kernel.cap(device, bytes_per_s, network, wish.ports)
        problems = {one: outcome[one] for one in DIRECTIONS if outcome[one]}
        state = LinkState(device, bytes_per_s, problems)
        self._set_state(state, made=outcome["made"])

    def _link(self) -> tuple[str, str]:
        """Return the network device and the data plane's network on it."""
        address = str(self._data_address)
        found = self._kernel.find_network(address)
        if found is None:
            raise _NoCap(
                self._given_device,
                ADDRESS_MISSING,
                f"no network device has the address {address}",
            )
        device, network = self._given_device or found[0], found[1]
        if device == monitor.LOOPBACK_DEVICE:
            raise _NoCap(
                device, LOOPBACK, "the loopback device cannot be capped"
            )
        return device, network

    def _rate_bytes_per_s(self, wish: Share, device: str) -> int:
        if wish.bytes_per_s:
            return int(wish.bytes_per_s)
        reading = self._reading()
        if reading.rate_known:
            self._known_rate = (device, reading.bytes_per_s)
        # A link that is down has no rate. It will probably come up with its
        # last rate.
        known_device, link_bytes_per_s = self._known_rate
        if known_device != device:
            raise _NoCap(
                device,
                RATE_UNKNOWN,
                f"the rate of {device} is unknown; set [agent]"
                " nic_bytes_per_s",
            )
        return int(link_bytes_per_s * wish.percent / 100)

    def _set_state(self, state: LinkState, made: bool = False) -> None:
        before, self._state = self._state, state
        if state == before and not made:
            return
        if state.problems:
            LOG.warning(
                "The data plane on %s is not capped: %s",
                state.device or "this host",
                state.message,
            )
        if len(state.problems) < len(DIRECTIONS):
            LOG.info(
                "The data plane on %s is capped at %d bytes/s",
                state.device,
                state.bytes_per_s,
            )

    def remove_left_over(self) -> None:
        """Remove a cap left by an agent with other settings.

        No privileges are requested if there is no such cap.
        """
        try:
            device = self._given_device
            if device is None and self._data_address is not None:
                found = self._kernel.find_network(self._data_address)
                device = found and found[0]
            if device in (None, monitor.LOOPBACK_DEVICE):
                return
            if self._kernel.is_capped(device):
                self._kernel.uncap()
                LOG.info("Removed the cap on the data plane of %s", device)
        except Exception as error:
            LOG.warning(
                "Cannot remove an earlier agent's cap on the data plane: %r",
                error,
            )

    def remove(self) -> None:
        try:
            self._kernel.uncap()
        except Exception as error:
            LOG.warning("Cannot remove the cap on the data plane: %r", error)
        else:
            self._state = LinkState()
            LOG.info("Removed the cap on the data plane")


def _failed(device: str | None, code: str, message: str) -> LinkState:
    problem = {"code": code, "message": message}
    return LinkState(device, 0, dict.fromkeys(DIRECTIONS, problem))
