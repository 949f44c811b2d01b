# SPDX-License-Identifier: Apache-2.0

"""The cap on real links: two hosts that are network namespaces.

Everything, addresses and queueing disciplines and traffic, is in namespaces
that a test makes and removes; the machine's own interfaces see nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import os
import pathlib
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator

import pyroute2
import pytest
from oslo_config import cfg
from pyroute2 import netns

from fpgapool.agent.host import monitor
from fpgapool.agent.host import shaping
from fpgapool.privsep import cap
from fpgapool.privsep import link
from fpgapool.privsep import tc
from tests.functional.agent import harness
from tests.harness import waiting

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make network namespaces"
)

CAP_BYTES_PER_S = 20_000_000
PORTS = range(30100, 30200)
OTHER_PORT = 31000

#: Past the tokens that a quiet link saves and what sockets buffer.
WARM_UP_BYTES = 4_000_000
MEASURED_BYTES = 12_000_000
ATTEMPTS = 3
TIMEOUT_S = 30.0

# linux/tcp.h: as much of tcp_info as has tcpi_bytes_received.
TCP_INFO_BYTES = 136
BYTES_RECEIVED_AT = 128

CAP_NET_ADMIN_MASK = 1 << 12


@dataclasses.dataclass(frozen=True)
class Host:
    """A network namespace with one link.

    :ivar other_ipv4: an address that is not on the data network.
    """

    namespace: str
    ipv4: str
    ipv6: str
    other_ipv4: str
    device: str = "link0"

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be in the namespace: this thread, and those it starts."""
        netns.pushns(self.namespace)
        try:
            yield
        finally:
            netns.popns()

    def address(self, family: int) -> str:
        return self.ipv6 if family == socket.AF_INET6 else self.ipv4

    def network(self, family: int) -> str:
        length = 64 if family == socket.AF_INET6 else 24
        interface = ipaddress.ip_interface(f"{self.address(family)}/{length}")
        return str(interface.network)


class Pair:
    """Two hosts and the wire between them."""

    def __init__(self) -> None:
        name = f"fpgapool-{uuid.uuid4().hex[:8]}"
        self.near = Host(f"{name}-a", "10.77.0.1", "fd77::1", "10.78.0.1")
        self.far = Host(f"{name}-b", "10.77.0.2", "fd77::2", "10.78.0.2")
        self.hosts = (self.near, self.far)

    def make(self) -> None:
        for host in self.hosts:
            netns.create(host.namespace)
        self.plug()

    def plug(self) -> None:
        """Make the wire, or a new one in place of one that was removed."""
        with self.near.entered(), pyroute2.IPRoute() as route:
            route.link(
                "add",
                ifname=self.near.device,
                kind="veth",
                peer={
                    "ifname": self.far.device,
                    "net_ns_fd": self.far.namespace,
                },
            )
        for host in self.hosts:
            with host.entered(), pyroute2.IPRoute() as route:
                (index,) = route.link_lookup(ifname=host.device)
                for address, length in (
                    (host.ipv4, 24),
                    (host.other_ipv4, 24),
                    (host.ipv6, 64),
                ):
                    # Without a search for others with the same address.
                    flags = {"flags": 2} if ":" in address else {}
                    route.addr(
                        "add",
                        index=index,
                        address=address,
                        prefixlen=length,
                        **flags,
                    )
                route.link("set", index=index, state="up")

    def unplug(self) -> None:
        with self.near.entered(), pyroute2.IPRoute() as route:
            (index,) = route.link_lookup(ifname=self.near.device)
            route.link("del", index=index)

    def remove(self) -> None:
        for host in self.hosts:
            with contextlib.suppress(FileNotFoundError):
                netns.remove(host.namespace)


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    try:
        made.make()
        yield made
    finally:
        made.remove()


@pytest.fixture
def here() -> Iterator[None]:
    """Run privileged functions in this process."""
    link.CONTEXT.set_client_mode(False)
    yield
    link.CONTEXT.set_client_mode(True)


def put(
    host: Host,
    *,
    bytes_per_s: int = CAP_BYTES_PER_S,
    family: int = socket.AF_INET,
) -> cap.Outcome:
    with host.entered():
        return link.put_cap(
            host.device,
            bytes_per_s,
            host.network(family),
            PORTS.start,
            PORTS.stop - 1,
        )


def qdiscs(host: Host) -> list[tc.Qdisc]:
    with host.entered(), tc.TrafficControl() as control:
        return control.qdiscs()


def device_names(host: Host) -> set[str]:
    with host.entered(), tc.TrafficControl() as control:
        return {one.name for one in control.links()}


def index_of(host: Host) -> int:
    with host.entered(), tc.TrafficControl() as control:
        found = control.link(host.device)
        assert found is not None
        return found.index


def root_kind(host: Host) -> str:
    index = index_of(host)
    (root,) = (
        one
        for one in qdiscs(host)
        if (one.index, one.parent) == (index, tc.ROOT)
    )
    return root.kind


@contextlib.contextmanager
def connection(
    server: Host,
    client: Host,
    port: int,
    *,
    family: int = socket.AF_INET,
    address: str | None = None,
    ip_options: bytes = b"",
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give both ends of a connection, the server's first."""
    address = address or server.address(family)
    with contextlib.ExitStack() as stack:
        with server.entered():
            listener = stack.enter_context(
                socket.create_server((address, port), family=family)
            )
        with client.entered():
            dialling = stack.enter_context(socket.socket(family))
        dialling.settimeout(TIMEOUT_S)
        if ip_options:
            dialling.setsockopt(
                socket.IPPROTO_IP, socket.IP_OPTIONS, ip_options
            )
        dialling.connect((address, port))
        accepted = stack.enter_context(listener.accept()[0])
        accepted.settimeout(TIMEOUT_S)
        yield accepted, dialling


class Flow:
    """Sends through a connection as fast as it goes, until it is left."""

    def __init__(self, sender: socket.socket, receiver: socket.socket) -> None:
        self._sender = sender
        self._receiver = receiver
        self._threads = [
            threading.Thread(target=self._send),
            threading.Thread(target=self._receive),
        ]
        self._condition = threading.Condition()
        self._read_bytes = 0

    def __enter__(self) -> Flow:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for sock in (self._sender, self._receiver):
            sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        piece = bytes(256 * 1024)
        with contextlib.suppress(OSError):
            while True:
                self._sender.sendall(piece)

    def _receive(self) -> None:
        buffer = bytearray(1024 * 1024)
        with contextlib.suppress(OSError):
            while count := self._receiver.recv_into(buffer):
                with self._condition:
                    self._read_bytes += count
                    self._condition.notify_all()

    def wait_for(self, more_bytes: int) -> None:
        """Wait until so many bytes have come."""
        with self._condition:
            wanted_bytes = self._read_bytes + more_bytes
            assert self._condition.wait_for(
                lambda: self._read_bytes >= wanted_bytes, TIMEOUT_S
            )

    def arrived_bytes(self) -> int:
        """Return what the kernel has got, whether it was read or not."""
        info = self._receiver.getsockopt(
            socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES
        )
        (arrived_bytes,) = struct.unpack_from("=Q", info, BYTES_RECEIVED_AT)
        return arrived_bytes


def bytes_per_s(*flows: Flow) -> float:
    """Return how fast bytes arrive, by all flows together.

    What the kernel counts does not depend on when a busy machine lets the
    test run.
    """
    for flow in flows:
        flow.wait_for(WARM_UP_BYTES)
    begin_s = time.monotonic()
    begin_bytes = sum(flow.arrived_bytes() for flow in flows)
    for flow in flows:
        flow.wait_for(MEASURED_BYTES)
    end_bytes = sum(flow.arrived_bytes() for flow in flows)
    return (end_bytes - begin_bytes) / (time.monotonic() - begin_s)


def measure(
    server: Host, client: Host, port: int, *, upload: bool, **options
) -> float:
    """Measure what the client sends, or else what it gets."""
    with connection(server, client, port, **options) as (serving, asking):
        ends = (asking, serving) if upload else (serving, asking)
        with Flow(*ends) as flow:
            return bytes_per_s(flow)


def assert_capped(
    server: Host,
    client: Host,
    *,
    upload: bool,
    **options,
) -> None:
    """Check that the cap is reached and kept.

    A busy machine may spoil a measurement, but not all of them; without a
    cap, each would show a multiple.
    """
    rates = []
    for attempt in range(ATTEMPTS):
        port = PORTS.start + attempt
        rates.append(measure(server, client, port, upload=upload, **options))
        if rates[-1] == pytest.approx(CAP_BYTES_PER_S, rel=0.1):
            return
    raise AssertionError(f"not at the cap: {rates}")


def assert_free(
    server: Host, client: Host, port: int, *, upload: bool, **options
) -> None:
    """Check that there is no cap, which each measurement would show."""
    rates = []
    for _ in range(ATTEMPTS):
        rates.append(measure(server, client, port, upload=upload, **options))
        if rates[-1] > 2 * CAP_BYTES_PER_S:
            return
    raise AssertionError(f"capped: {rates}")


FAMILIES = pytest.mark.parametrize(
    "family", [socket.AF_INET, socket.AF_INET6], ids=["ipv4", "ipv6"]
)
DIRECTIONS = pytest.mark.parametrize(
    "upload", [False, True], ids=["outgoing", "incoming"]
)


@FAMILIES
@DIRECTIONS
def test_what_the_workers_send_and_get_is_capped(pair, here, family, upload):
    outcome = put(pair.near, family=family)
    assert outcome == {"outgoing": None, "incoming": None, "made": True}
    assert_capped(pair.near, pair.far, upload=upload, family=family)


@DIRECTIONS
def test_so_is_what_programs_exchange_with_other_hosts(pair, here, upload):
    put(pair.near)
    assert_capped(pair.far, pair.near, upload=upload)


def test_options_in_the_header_hide_nothing(pair, here):
    put(pair.near)
    no_operation = b"\1\1\1\1"
    assert_capped(pair.near, pair.far, upload=True, ip_options=no_operation)


@DIRECTIONS
@pytest.mark.parametrize("port", [PORTS.start - 1, PORTS.stop, OTHER_PORT])
def test_other_ports_are_not_capped(pair, here, upload, port):
    put(pair.near)
    assert_free(pair.near, pair.far, port, upload=upload)


@DIRECTIONS
def test_other_networks_are_not_capped(pair, here, upload):
    put(pair.near)
    assert_free(
        pair.near,
        pair.far,
        PORTS.start,
        upload=upload,
        address=pair.near.other_ipv4,
    )


def test_connections_share_one_cap(pair, here):
    put(pair.near)
    with (
        connection(pair.near, pair.far, PORTS[0]) as first,
        connection(pair.near, pair.far, PORTS[-1]) as second,
        Flow(*first) as one,
        Flow(*second) as another,
    ):
        assert bytes_per_s(one, another) < 1.5 * CAP_BYTES_PER_S


def test_another_wish_changes_the_cap(pair, here):
    put(pair.near, bytes_per_s=4 * CAP_BYTES_PER_S)
    before = qdiscs(pair.near)
    assert put(pair.near)["made"] is False
    assert qdiscs(pair.near) == before
    for upload in (False, True):
        assert_capped(pair.near, pair.far, upload=upload)


def test_a_rate_beyond_32_bits_is_kept(pair, here):
    fast_bytes_per_s = 12_500_000_000
    put(pair.near, bytes_per_s=fast_bytes_per_s)
    with pair.near.entered(), pyroute2.IPRoute() as route:
        (found,) = route.get_classes(index=index_of(pair.near))
    options = found.get_attr("TCA_OPTIONS")
    assert options.get_attr("TCA_HTB_RATE64") == fast_bytes_per_s
    assert options.get_attr("TCA_HTB_CEIL64") == fast_bytes_per_s
    assert_free(pair.near, pair.far, PORTS.start, upload=False)


def test_removal_leaves_the_link_as_it_was(pair, here):
    before = qdiscs(pair.near), device_names(pair.near)
    put(pair.near)
    assert (qdiscs(pair.near), device_names(pair.near)) != before
    with pair.near.entered():
        for _ in range(2):
            link.remove_cap()
            assert (qdiscs(pair.near), device_names(pair.near)) == before
    for upload in (False, True):
        assert_free(pair.near, pair.far, PORTS.start, upload=upload)


def test_a_cap_moves_to_another_device(pair, here):
    put(pair.near)
    with pair.near.entered():
        with pyroute2.IPRoute() as route:
            route.link("add", ifname="link1", kind="veth", peer="link2")
        old = index_of(pair.near)
        other = dataclasses.replace(pair.near, device="link1")
        assert put(other)["made"] is True
        with tc.TrafficControl() as control:
            caps = cap.Cap(control)
            assert not caps.is_on(pair.near.device)
            assert caps.is_on(other.device)
            assert {
                one.handle for one in control.qdiscs() if one.index == old
            } == {tc.KERNELS_HANDLE}


@pytest.mark.parametrize("queues", [1, 2])
def test_the_kernels_choice_gives_way_and_returns(pair, here, queues):
    # Unlike the ends of a wire, it has queues, as hardware does.
    device = dataclasses.replace(pair.near, device="many0")
    with device.entered(), pyroute2.IPRoute() as route:
        route.link("add", ifname="many0", kind="ifb", num_tx_queues=queues)
        route.link("set", index=index_of(device), state="up")
    kernels_choice = root_kind(device)
    assert (kernels_choice == "mq") is (queues > 1)
    assert put(device)["outgoing"] is None
    assert root_kind(device) == "htb"
    with device.entered():
        link.remove_cap()
    assert root_kind(device) == kernels_choice


def test_a_foreign_root_is_left_alone(pair, here):
    index = index_of(pair.near)
    with pair.near.entered(), tc.TrafficControl() as control:
        control.add_htb(index, 0x10000, 0, 1000)
    before = [one for one in qdiscs(pair.near) if one.parent == tc.ROOT]
    outcome = put(pair.near)
    assert outcome["outgoing"]["code"] == cap.FOREIGN_QDISC
    assert "htb 1:" in outcome["outgoing"]["message"]
    assert outcome["incoming"] is None
    # Then a wish for none.
    with pair.near.entered():
        link.remove_cap()
    assert [
        one for one in qdiscs(pair.near) if one.parent == tc.ROOT
    ] == before


def _add_clsact(host: Host, kind: str) -> None:
    with host.entered(), pyroute2.IPRoute() as route:
        route.tc("add", kind, index=index_of(host))


def _add_foreign_filter(host: Host) -> None:
    with host.entered(), pyroute2.IPRoute() as route:
        route.tc(
            "add-filter",
            "u32",
            index=index_of(host),
            parent=tc.INGRESS_HANDLE,
            prio=5,
            protocol=0x0800,
            target=0x10001,
            keys=["0x0/0x0+0"],
        )


@pytest.mark.parametrize("kind", ["ingress", "clsact"])
def test_foreign_filters_of_incoming_traffic_are_left_alone(pair, here, kind):
    _add_clsact(pair.near, kind)
    before = {one for one in qdiscs(pair.near) if one.parent == tc.INGRESS}
    outcome = put(pair.near)
    assert outcome["incoming"]["code"] == cap.FOREIGN_QDISC
    assert kind in outcome["incoming"]["message"]
    assert outcome["outgoing"] is None
    assert cap.IFB_NAME not in device_names(pair.near)
    with pair.near.entered():
        link.remove_cap()
    assert {
        one for one in qdiscs(pair.near) if one.parent == tc.INGRESS
    } == before


def test_filters_that_came_later_stay(pair, here):
    put(pair.near)
    _add_foreign_filter(pair.near)
    assert put(pair.near) == {
        "outgoing": None,
        "incoming": None,
        "made": False,
    }
    with pair.near.entered():
        link.remove_cap()
        with tc.TrafficControl() as control:
            left = control.filters(index_of(pair.near), tc.INGRESS_HANDLE)
    assert {one.preference for one in left} == {5}


def test_half_of_a_cap_is_completed(pair, here):
    put(pair.near)
    with pair.near.entered(), tc.TrafficControl() as control:
        control.delete_filter(
            index_of(pair.near), tc.INGRESS_HANDLE, cap.PREFERENCE
        )
    assert put(pair.near)["incoming"] is None
    assert_capped(pair.near, pair.far, upload=True)


def test_a_foreign_device_of_that_name_is_left_alone(pair, here):
    with pair.near.entered(), pyroute2.IPRoute() as route:
        route.link("add", ifname=cap.IFB_NAME, kind="veth", peer="foreign")
    outcome = put(pair.near)
    assert outcome["incoming"]["code"] == cap.FOREIGN_DEVICE
    with pair.near.entered():
        link.remove_cap()
    assert cap.IFB_NAME in device_names(pair.near)


def test_no_device_no_cap(pair, here):
    absent = dataclasses.replace(pair.near, device="link9")
    outcome = put(absent)
    assert outcome["outgoing"]["code"] == cap.NO_DEVICE
    assert outcome["incoming"]["code"] == cap.NO_DEVICE


@pytest.mark.parametrize(
    ("bytes_per_s", "network", "ports"),
    [
        (1, "10.0.0.0/8", (1, 2)),
        (10**13, "10.0.0.0/8", (1, 2)),
        (10**6, "10.0.0.1/8", (1, 2)),
        (10**6, "everywhere", (1, 2)),
        (10**6, "10.0.0.0/8", (0, 2)),
        (10**6, "10.0.0.0/8", (2, 1)),
        (10**6, "10.0.0.0/8", (1, 65536)),
    ],
)
def test_nonsense_changes_nothing(pair, here, bytes_per_s, network, ports):
    before = qdiscs(pair.near)
    with pair.near.entered(), pytest.raises(ValueError):
        link.put_cap(pair.near.device, bytes_per_s, network, *ports)
    assert qdiscs(pair.near) == before


def protection(pair: Pair) -> shaping.LinkProtection:
    return shaping.LinkProtection(
        shaping.Share(PORTS, percent=20.0),
        data_address=pair.near.ipv4,
        device=None,
        reading=lambda: monitor.NicReading(
            pair.near.device, 5.0 * CAP_BYTES_PER_S
        ),
    )


def test_a_link_that_comes_back_is_capped_again(pair, here):
    guard = protection(pair)
    with pair.near.entered():
        guard.check()
        assert guard.state == shaping.LinkState(
            pair.near.device, CAP_BYTES_PER_S
        )
        pair.unplug()
        guard.check()
        assert {one["code"] for one in guard.state.problems.values()} == {
            shaping.ADDRESS_MISSING
        }
        pair.plug()
        guard.check()
        assert not guard.state.problems
    for upload in (False, True):
        assert_capped(pair.near, pair.far, upload=upload)


@FAMILIES
def test_the_network_of_an_address_is_found(pair, family):
    kernel = shaping.PrivilegedKernel()
    with pair.near.entered():
        assert kernel.find_network(pair.near.address(family)) == (
            pair.near.device,
            pair.near.network(family),
        )
        assert kernel.find_network(pair.far.address(family)) is None


def test_an_agent_without_a_wish_removes_what_was_left(pair, here):
    before = qdiscs(pair.near), device_names(pair.near)
    put(pair.near)
    guard = shaping.LinkProtection(
        None,
        data_address=pair.near.ipv4,
        device=None,
        reading=lambda: monitor.NicReading(None, 1.0),
    )
    with pair.near.entered():
        guard.remove_left_over()
    assert (qdiscs(pair.near), device_names(pair.near)) == before


@pytest.fixture
def privsep_daemon() -> Iterator[None]:
    """Have oslo.privsep start its daemon as root, without sudo."""
    program = "from oslo_privsep import daemon; daemon.helper_main()"
    cfg.CONF.set_override(
        "helper_command",
        shlex.join([sys.executable, "-W", "ignore", "-c", program]),
        group=link.CONFIG_GROUP,
    )
    yield
    link.CONTEXT.stop()
    cfg.CONF.clear_override("helper_command", group=link.CONFIG_GROUP)


def test_the_privileged_process_does_it(pair, privsep_daemon):
    guard = protection(pair)
    with pair.near.entered():
        guard.check()
    assert guard.state == shaping.LinkState(pair.near.device, CAP_BYTES_PER_S)
    for upload in (False, True):
        assert_capped(pair.near, pair.far, upload=upload)
    assert (
        _effective_capabilities(_daemon_pid(pair.near)) == CAP_NET_ADMIN_MASK
    )
    with pair.near.entered():
        guard.remove()
        with tc.TrafficControl() as control:
            assert not cap.Cap(control).is_on(pair.near.device)
    # Errors cross the processes, too.
    with pytest.raises(ValueError, match="invalid cap"):
        put(pair.near, bytes_per_s=1)


#: An agent's start as a user with an ambient capability, and its cap.
AMBIENT = """\
import os, sys
from oslo_config import cfg
from oslo_privsep import capabilities
from fpgapool.privsep import ambient, link

cfg.CONF([], default_config_files=[])
own = [capabilities.CAP_NET_ADMIN]
capabilities.set_keepcaps(True)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
capabilities.drop_all_caps_except(own, own, own)
ambient.give_up()
device, bytes_per_s, network, first, last = sys.argv[1:]
outcome = link.put_cap(
    device, int(bytes_per_s), network, int(first), int(last)
)
print(capabilities.get_caps(), outcome)
"""


def test_an_agent_leaves_its_capability_to_a_small_process(pair):
    arguments = (
        *(pair.near.device, CAP_BYTES_PER_S),
        *(pair.near.network(socket.AF_INET), PORTS.start, PORTS.stop - 1),
    )
    with pair.near.entered():
        printed = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", AMBIENT]
            + [str(each) for each in arguments],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=waiting.LIMIT_S,
        ).stdout
    outcome = {"outgoing": None, "incoming": None, "made": True}
    assert printed == f"([], [], []) {outcome}\n"
    for upload in (False, True):
        assert_capped(pair.near, pair.far, upload=upload)


# oslo.privsep leaves a failed helper's pipe to the garbage collector.
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
def test_without_the_privileged_process_there_is_no_cap(pair, privsep_daemon):
    cfg.CONF.set_override("helper_command", "false", group=link.CONFIG_GROUP)
    before = qdiscs(pair.near)
    guard = protection(pair)
    with pair.near.entered():
        assert guard.check() == shaping.FAILURE_INTERVAL_S
    assert {one["code"] for one in guard.state.problems.values()} == {
        shaping.PRIVSEP_FAILED
    }
    assert qdiscs(pair.near) == before


def _daemon_pid(host: Host) -> int:
    """Return the only process that lives in a host's namespace."""
    namespace = os.stat(f"/run/netns/{host.namespace}").st_ino
    found = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "ns" / "net").stat().st_ino == namespace:
                found.add(int(process.name))
    (pid,) = found
    return pid


def _effective_capabilities(pid: int) -> int:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    raise AssertionError("the kernel knows no capabilities")


@pytest.mark.parametrize("remove", [False, True])
def test_an_agent_caps_its_link(pair, here, directory, remove):
    with (
        pair.near.entered(),
        harness.running_host(
            directory,
            data_address=pair.near.ipv4,
            data_ports=f"{PORTS.start}-{PORTS.stop - 1}",
            nic_bytes_per_s=2.0 * CAP_BYTES_PER_S,
            data_share_percent=50.0,
            data_share_remove_at_stop=remove,
        ) as host,
    ):
        agent = host.start()
        host.conductor.wait_for("report", lambda one: not one.link_message)
        agent.stop()
        with tc.TrafficControl() as control:
            assert cap.Cap(control).is_on(pair.near.device) is not remove


def test_an_agent_reports_why_its_link_has_no_cap(pair, here, directory):
    # Somebody shapes what leaves already; what comes in gets its cap.
    index = index_of(pair.near)
    with pair.near.entered(), tc.TrafficControl() as control:
        control.add_htb(index, 0x10000, 0, 1000)
    with (
        pair.near.entered(),
        harness.running_host(
            directory,
            data_address=pair.near.ipv4,
            data_ports=f"{PORTS.start}-{PORTS.stop - 1}",
            data_rate_bytes_per_s=float(CAP_BYTES_PER_S),
        ) as host,
    ):
        host.start()
        report = host.conductor.wait_for("report", lambda one: True)
        assert report.link_message.startswith("outgoing: ")
        assert report.link_message.endswith(f"({cap.FOREIGN_QDISC})")
