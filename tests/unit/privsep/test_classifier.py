# SPDX-License-Identifier: Apache-2.0

"""The classifier's program, run by an interpreter of its instructions."""

from __future__ import annotations

import ipaddress
import random
import struct

import pytest

from fpgapool.privsep import classifier

PORTS = (30000, 30099)
IPV4_NETWORK = ipaddress.ip_network("192.0.2.0/24")
IPV6_NETWORK = ipaddress.ip_network("2001:db8:7::/49")
NETWORKS = (
    IPV4_NETWORK,
    ipaddress.ip_network("192.0.2.7/32"),
    ipaddress.ip_network("0.0.0.0/0"),
    IPV6_NETWORK,
    ipaddress.ip_network("2001:db8:7::1/128"),
    ipaddress.ip_network("::/0"),
)
TCP = 6
UDP = 17

NETWORK_HEADER = 2**32 - 0x100000
ETHERTYPE = 2**32 - 0x1000


def load(packet: bytes, ethertype: int, place: int, width: int) -> int:
    """Load as the kernel does.

    :raises EOFError: beyond the packet's end, which ends the program.
    """
    if place == ETHERTYPE:
        return ethertype
    start = place - NETWORK_HEADER
    assert start >= 0, "a place that depends on the link"
    if start + width > len(packet):
        raise EOFError
    return int.from_bytes(packet[start : start + width])


def run(program: bytes, packet: bytes, ethertype: int) -> int:
    """Interpret a program; see linux/bpf_common.h."""
    a = x = place = 0
    code = [
        struct.unpack_from("=HBBI", program, start)
        for start in range(0, len(program), 8)
    ]
    widths = {0x20: 4, 0x28: 2, 0x30: 1}
    while True:
        operation, if_true, if_false, value = code[place]
        place += 1
        match operation:
            case 0x20 | 0x28 | 0x30:
                a = load(packet, ethertype, value, widths[operation])
            case 0x48:
                a = load(packet, ethertype, value + x, 2)
            case 0xB1:
                x = 4 * (load(packet, ethertype, value, 1) & 0xF)
            case 0x01:
                x = value
            case 0x54:
                a &= value
            case 0x15:
                place += if_true if a == value else if_false
            case 0x25:
                place += if_true if a > value else if_false
            case 0x35:
                place += if_true if a >= value else if_false
            case 0x45:
                place += if_true if a & value else if_false
            case 0x06:
                return value
            case _:
                raise AssertionError(f"unknown instruction {operation:x}")


def accepts(program: bytes, packet: bytes, ethertype: int) -> bool:
    try:
        return run(program, packet, ethertype) == classifier.ACCEPT
    except EOFError:
        return False


def packet(
    ends: tuple[tuple[str, int], tuple[str, int]],
    *,
    protocol: int = TCP,
    options: bytes = b"",
    fragment: int = 0,
) -> tuple[bytes, int]:
    """Return a packet and its ethertype.

    :param ends: address and port of the source and of the destination.
    """
    (source, source_port), (destination, destination_port) = ends
    addresses = (
        ipaddress.ip_address(source).packed
        + ipaddress.ip_address(destination).packed
    )
    ports = struct.pack("!HH", source_port, destination_port)
    if len(addresses) == 8:
        header = struct.pack(
            "!BBHHHBBH",
            0x40 | (5 + len(options) // 4),
            *(0, 0, 0),
            fragment,
            *(64, protocol, 0),
        )
        return header + addresses + options + ports + bytes(16), 0x0800
    header = struct.pack("!IHBB", 0x60000000, 0, protocol, 64)
    return header + addresses + ports + bytes(16), 0x86DD


WORKER = ("192.0.2.7", 30000)
CLIENT = ("198.51.100.1", 40000)


@pytest.mark.parametrize("port", [30000, 30050, 30099])
@pytest.mark.parametrize("turned", [False, True])
def test_both_ways_are_accepted(port, turned):
    worker = ("192.0.2.7", port)
    ends = (CLIENT, worker) if turned else (worker, CLIENT)
    program = classifier.program(IPV4_NETWORK, *PORTS)
    assert accepts(program, *packet(ends))


def test_options_move_the_ports():
    program = classifier.program(IPV4_NETWORK, *PORTS)
    assert accepts(program, *packet((WORKER, CLIENT), options=b"\1" * 40))


@pytest.mark.parametrize(
    "changes",
    [{"protocol": UDP}, {"fragment": 1}, {"fragment": 0x2001}],
)
def test_what_has_no_such_port_is_not_accepted(changes):
    program = classifier.program(IPV4_NETWORK, *PORTS)
    assert not accepts(program, *packet((WORKER, CLIENT), **changes))


def test_the_first_fragment_has_ports():
    program = classifier.program(IPV4_NETWORK, *PORTS)
    assert accepts(program, *packet((WORKER, CLIENT), fragment=0x2000))


def test_an_address_and_a_port_must_be_of_one_end():
    program = classifier.program(IPV4_NETWORK, *PORTS)
    ends = (("192.0.2.7", 40000), ("198.51.100.1", 30000))
    assert not accepts(program, *packet(ends))


@pytest.mark.parametrize("network", [IPV4_NETWORK, IPV6_NETWORK])
def test_a_packet_that_ends_early_is_not_accepted(network):
    program = classifier.program(network, *PORTS)
    worker = (str(network[7]), 30000)
    whole, ethertype = packet((worker, (str(network[8]), 40000)))
    port_end_bytes = (20 if network.version == 4 else 40) + 2
    for length_bytes in range(port_end_bytes):
        assert not accepts(program, whole[:length_bytes], ethertype)
    assert accepts(program, whole[:port_end_bytes], ethertype)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_nothing_else_is_accepted(network):
    numbers = random.Random(20)
    program = classifier.program(network, *PORTS)
    seen = set()
    for _ in range(3000):
        ends = (_end(numbers, network), _end(numbers, network))
        protocol = numbers.choice([TCP, TCP, TCP, UDP])
        expected = protocol == TCP and any(
            ipaddress.ip_address(address) in network
            and PORTS[0] <= port <= PORTS[1]
            for address, port in ends
        )
        found = accepts(program, *packet(ends, protocol=protocol))
        assert found is expected
        seen.add(found)
    assert seen == {False, True}


def _end(numbers: random.Random, network) -> tuple[str, int]:
    """Return an end whose bits are the network's, or nearly so."""
    bits = network.max_prefixlen
    address = int(network.network_address)
    address |= numbers.getrandbits(bits) & int(network.hostmask)
    if numbers.random() < 0.5:
        address ^= 1 << numbers.randrange(bits)
    packed = address.to_bytes(bits // 8)
    edge = numbers.choice([*PORTS, 1, 65535])
    port = min(max(edge + numbers.randint(-2, 2), 0), 65535)
    return str(ipaddress.ip_address(packed)), port


@pytest.mark.parametrize("network", [IPV4_NETWORK, IPV6_NETWORK])
def test_the_other_family_is_not_accepted(network):
    program = classifier.program(network, *PORTS)
    ends = (("2001:db8:7::1", 30000), ("2001:db8:7::2", 30000))
    if network.version == 6:
        ends = (WORKER, ("192.0.2.8", 30000))
    assert not accepts(program, *packet(ends))


@pytest.mark.parametrize(
    "ports", [(0, 10), (10, 9), (1, 65536), (65536, 65536), (-1, 5)]
)
def test_ports_that_cannot_be(ports):
    with pytest.raises(ValueError, match="invalid port range"):
        classifier.program(IPV4_NETWORK, *ports)
