# SPDX-License-Identifier: Apache-2.0

"""Reaches services on the host and in networks."""

from __future__ import annotations

import errno
import os
import socket

from tests.walls.attacks.registry import HIDDEN
from tests.walls.attacks.registry import Scene
from tests.walls.attacks.registry import attack
from tests.walls.attacks.registry import each

_CALLS = "seccomp"
_TCP = "seccomp, Landlock 4"
_LOOPBACK = "127.0.0.1"
#: In a namespace of networks of its own, nobody listens.
_ALONE = {errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.ENETUNREACH}
_WAIT_S = 5.0


def _connect(family: int, kind: int, address: object) -> str:
    with socket.socket(family, kind) as sock:
        sock.settimeout(_WAIT_S)
        sock.connect(address)
    return "a connection"


def _open(family: int, kind: int, number: int = 0) -> str:
    socket.socket(family, kind, number).close()
    return "a socket"


@attack("connects to a service on the loopback device", _TCP)
def tcp(scene: Scene) -> str:
    address = _LOOPBACK, scene["tcp"]
    return _connect(socket.AF_INET, socket.SOCK_STREAM, address)


@attack("connects by IPv6", _TCP)
def tcp_by_ipv6(scene: Scene) -> str:
    # The machine may have no IPv6: that is no wall.
    return _connect(
        socket.AF_INET6, socket.SOCK_STREAM, ("::1", scene["tcp6"])
    )


@attack("connects with its first data", _CALLS)
def tcp_fast_open(scene: Scene) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        address = _LOOPBACK, scene["tcp"]
        sock.sendto(b"first", socket.MSG_FASTOPEN, address)
    return "a connection"


@attack("makes a connection of a socket that it has", _CALLS)
def tcp_fast_open_of_own(scene: Scene) -> str:
    # Its listening socket would do, which is of use to others here. What is
    # refused is the same for all sockets.
    ours, its = socket.socketpair()
    with ours, its:
        return each(
            {
                "sendto": lambda: ours.send(b"first", socket.MSG_FASTOPEN),
                "sendmsg": lambda: ours.sendmsg(
                    [b"first"], (), socket.MSG_FASTOPEN
                ),
            }
        )


@attack("sends a datagram to a service", _CALLS)
def udp(scene: Scene) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"datagram", (_LOOPBACK, scene["udp"]))
    return "a datagram"


@attack("listens on a TCP port", _TCP)
def listening(scene: Scene) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind((_LOOPBACK, 0))
        sock.listen()
    return "a service of the attacker's"


@attack("makes raw packets", "seccomp, no capabilities")
def raw_packets(scene: Scene) -> str:
    return _open(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


@attack("reads the packets of all", "seccomp, no capabilities")
def all_packets(scene: Scene) -> str:
    return _open(socket.AF_PACKET, socket.SOCK_RAW)


@attack("asks the kernel about networks", _CALLS)
def netlink(scene: Scene) -> str:
    return _open(socket.AF_NETLINK, socket.SOCK_RAW)


@attack("reaches the hypervisor", _CALLS)
def hypervisor(scene: Scene) -> str:
    return _open(socket.AF_VSOCK, socket.SOCK_STREAM)


@attack("makes sockets of any other family", _CALLS)
def other_families(scene: Scene) -> str:
    known = socket.AF_UNIX, socket.AF_INET, socket.AF_INET6
    others = set(range(1, 46)) - {*known, socket.AF_PACKET, socket.AF_NETLINK}
    kinds = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, 5
    tries = {
        f"{family}/{int(kind)}": (
            lambda family=family, kind=kind: _open(family, kind)
        )
        for family in sorted(others)
        for kind in kinds
    }
    return each(tries)


@attack("connects to the agent's front door", _CALLS)
def front_door(scene: Scene) -> str:
    return _connect(socket.AF_UNIX, socket.SOCK_STREAM, scene["front_door"])


@attack("connects to the control socket of another worker", _CALLS)
def control_socket(scene: Scene) -> str:
    return _connect(socket.AF_UNIX, socket.SOCK_STREAM, scene["control"])


@attack("connects to an abstract socket", f"{_CALLS}, Landlock 6", _ALONE)
def abstract_socket(scene: Scene) -> str:
    name = "\0" + scene["abstract"]
    return _connect(socket.AF_UNIX, socket.SOCK_STREAM, name)


@attack("sends a datagram by the path of a Unix socket", _CALLS)
def unix_datagram(scene: Scene) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"datagram", scene["datagrams"])
    return "a datagram"


@attack("sends a datagram elsewhere from a pair of sockets", _CALLS)
def pair_datagram(scene: Scene) -> str:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, its:
        ours.sendto(b"datagram", scene["datagrams"])
    return "a datagram"


@attack("lists the sockets of the host", "Landlock", HIDDEN)
def list_of_sockets(scene: Scene) -> str:
    with open("/proc/net/unix", encoding="utf-8") as file:
        if scene["abstract"] in file.read():
            return "the names of others' sockets"
    return "refused: only its own"


@attack("offers a Unix socket where others look for theirs", _CALLS)
def unix_listening(scene: Scene) -> str:
    path = os.path.join(scene["state_dir"], "attack.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(path)
        os.unlink(path)
    return "a service of the attacker's"
