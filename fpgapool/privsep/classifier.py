# SPDX-License-Identifier: Apache-2.0

"""A socket filter that accepts the data plane's packets.

It is classic BPF, because one short program can express the whole condition: a
range of ports after an IPv4 header, with or without options, or an IPv6
header. The kernel uses it as a traffic control filter (cls_bpf).
"""

from __future__ import annotations

import dataclasses
import ipaddress
import struct
from collections.abc import Iterable
from collections.abc import Iterator

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ACCEPT = 0xFFFFFFFF
REJECT = 0

# Instruction codes, from linux/bpf_common.h.
_LOAD_WORD = 0x20
_LOAD_HALF = 0x28
_LOAD_BYTE = 0x30
_LOAD_HALF_AT_X = 0x48
_LOAD_X_IPV4_HEADER_BYTES = 0xB1
_LOAD_X_CONSTANT = 0x01
_AND = 0x54
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_GREATER = 0x25
_JUMP_IF_GREATER_OR_EQUAL = 0x35
_JUMP_IF_ANY_BIT = 0x45
_RETURN = 0x06

# Base offsets from linux/filter.h. They do not depend on what precedes the IP
# header, such as an Ethernet header with a VLAN tag.
_NETWORK_HEADER = 2**32 - 0x100000
_ETHERTYPE = 2**32 - 0x1000

_ETHERTYPE_IPV4 = 0x0800
_ETHERTYPE_IPV6 = 0x86DD
_TCP = 6

_IPV6_HEADER_BYTES = 40
_SOURCE_PORT_OFFSET = 0
_DESTINATION_PORT_OFFSET = 2
_FRAGMENT_OFFSET_MASK = 0x1FFF
_MAX_PORT = 2**16 - 1

_NEXT = ""
_YES = "yes"
_NO = "no"
_DESTINATION = "destination"


@dataclasses.dataclass(frozen=True, slots=True)
class _Instruction:
    """One instruction; jumps name the label of their target."""

    code: int
    value: int
    if_true: str = _NEXT
    if_false: str = _NEXT
    label: str = _NEXT


def program(network: Network, first_port: int, last_port: int) -> bytes:
    """Return the program that accepts the data plane's packets.

    These are TCP packets whose source or destination has an address in the
    network and a port in the range. Fragments after the first have no port and
    are not accepted; TCP does not normally produce any.

    :raises ValueError: if the range of ports is invalid.
    """
    if not 0 < first_port <= last_port <= _MAX_PORT:
        raise ValueError(f"invalid port range: {first_port}-{last_port}")
    is_ipv4 = network.version == 4
    header = _ipv4_header() if is_ipv4 else _ipv6_header()
    source, destination = (12, 16) if is_ipv4 else (8, 24)
    ports = (first_port, last_port)
    first, *rest = _end(
        network, destination, _DESTINATION_PORT_OFFSET, ports, _NO
    )
    return _assemble(
        [
            *header,
            *_end(network, source, _SOURCE_PORT_OFFSET, ports, _DESTINATION),
            dataclasses.replace(first, label=_DESTINATION),
            *rest,
            _Instruction(_RETURN, REJECT, label=_NO),
            _Instruction(_RETURN, ACCEPT, label=_YES),
        ]
    )


def _ipv4_header() -> Iterator[_Instruction]:
    """Check the header and put its length in the register X."""
    yield _Instruction(_LOAD_HALF, _ETHERTYPE)
    yield _only_if_equal(_ETHERTYPE_IPV4)
    yield _Instruction(_LOAD_BYTE, _NETWORK_HEADER + 9)
    yield _only_if_equal(_TCP)
    yield _Instruction(_LOAD_HALF, _NETWORK_HEADER + 6)
    yield _Instruction(_JUMP_IF_ANY_BIT, _FRAGMENT_OFFSET_MASK, if_true=_NO)
    yield _Instruction(_LOAD_X_IPV4_HEADER_BYTES, _NETWORK_HEADER)


def _ipv6_header() -> Iterator[_Instruction]:
    """Check the header and put its length in the register X."""
    yield _Instruction(_LOAD_HALF, _ETHERTYPE)
    yield _only_if_equal(_ETHERTYPE_IPV6)
    yield _Instruction(_LOAD_BYTE, _NETWORK_HEADER + 6)
    yield _only_if_equal(_TCP)
    yield _Instruction(_LOAD_X_CONSTANT, _IPV6_HEADER_BYTES)


def _end(
    network: Network,
    address_offset_bytes: int,
    port_offset_bytes: int,
    ports: tuple[int, int],
    otherwise: str,
) -> Iterator[_Instruction]:
    """Accept the packet if the address and port of one end match."""
    for offset_bytes, mask, value in _words(network):
        place = _NETWORK_HEADER + address_offset_bytes + offset_bytes
        yield _Instruction(_LOAD_WORD, place)
        yield _Instruction(_AND, mask)
        yield _Instruction(_JUMP_IF_EQUAL, value, if_false=otherwise)
    first_port, last_port = ports
    yield _Instruction(_LOAD_HALF_AT_X, _NETWORK_HEADER + port_offset_bytes)
    yield _Instruction(
        _JUMP_IF_GREATER_OR_EQUAL, first_port, if_false=otherwise
    )
    yield _Instruction(
        _JUMP_IF_GREATER, last_port, if_true=otherwise, if_false=_YES
    )


def _words(network: Network) -> Iterator[tuple[int, int, int]]:
    """Yield offset, mask and value of each word that the prefix covers."""
    address = network.network_address.packed
    masks = network.netmask.packed
    for offset_bytes in range(0, len(address), 4):
        (mask,) = struct.unpack_from("!I", masks, offset_bytes)
        (value,) = struct.unpack_from("!I", address, offset_bytes)
        if mask:
            yield offset_bytes, mask, value


def _only_if_equal(value: int) -> _Instruction:
    return _Instruction(_JUMP_IF_EQUAL, value, if_false=_NO)


def _assemble(instructions: Iterable[_Instruction]) -> bytes:
    listed = list(instructions)
    places = {one.label: place for place, one in enumerate(listed)}
    code = bytearray()
    for place, one in enumerate(listed):
        code += struct.pack(
            "=HBBI",
            one.code,
            _distance(places, place, one.if_true),
            _distance(places, place, one.if_false),
            one.value,
        )
    return bytes(code)


def _distance(places: dict[str, int], place: int, label: str) -> int:
    return places[label] - place - 1 if label else 0
