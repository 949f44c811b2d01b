# SPDX-License-Identifier: Apache-2.0

"""The parts of the kernel's traffic control that a cap needs.

pyroute2 sends the messages. Their contents are packed here, because its own
interface supports neither byte-limited queues nor classic BPF programs.
"""

from __future__ import annotations

import dataclasses
import socket
import struct
import types
from collections.abc import Iterator
from collections.abc import Mapping

import pyroute2
from pyroute2 import netlink
from pyroute2.netlink import nlsocket
from pyroute2.netlink import rtnl

ROOT = 0xFFFFFFFF
INGRESS = 0xFFFFFFF1
INGRESS_HANDLE = 0xFFFF0000

#: Handle of a device's default queueing discipline.
KERNELS_HANDLE = 0

_CREATE = netlink.NLM_F_CREATE | netlink.NLM_F_EXCL
_CREATE_OR_CHANGE = netlink.NLM_F_CREATE | netlink.NLM_F_REPLACE

# linux/pkt_sched.h, linux/pkt_cls.h and linux/tc_act/tc_mirred.h.
_TCA_HTB_PARMS = 1
_TCA_HTB_INIT = 2
_TCA_HTB_DIRECT_QLEN = 5
_TCA_HTB_RATE64 = 6
_TCA_HTB_CEIL64 = 7
_TCA_BPF_ACT = 1
_TCA_BPF_CLASSID = 3
_TCA_BPF_OPS_LEN = 4
_TCA_BPF_OPS = 5
_TCA_ACT_KIND = 1
_TCA_ACT_OPTIONS = 2
_TCA_MIRRED_PARMS = 2
_TCA_EGRESS_REDIR = 1
_TC_ACT_STOLEN = 4
_ETH_P_ALL = 3
_HTB_VERSION = 3
_LINKLAYER_ETHERNET = 1

# Unit of times in HTB's messages; PSCHED_SHIFT is 6.
_TICK_NS = 64
_MAX_U32 = 2**32 - 1

#: If a device's queue length is 0, packets that must wait would be dropped.
MIN_DIRECT_PACKETS = 1000

#: Unused tokens accumulate for this long, so late timers cost no throughput.
_BURST_S = 0.004

#: Size of the largest packet that TCP hands to a device.
_LARGEST_PACKET_BYTES = 2**16 + 2**11

#: A queue holds the output of this time, so it adds at most this delay.
_QUEUE_S = 0.05
_MIN_QUEUE_BYTES = 2**20


class _Message(netlink.nlmsg):
    """A message about traffic control with packed options."""

    prefix = "TCA_"
    fields = (
        ("family", "B"),
        ("pad1", "B"),
        ("pad2", "H"),
        ("index", "i"),
        ("handle", "I"),
        ("parent", "I"),
        ("info", "I"),
    )
    nla_map = (
        ("TCA_UNSPEC", "none"),
        ("TCA_KIND", "asciiz"),
        ("TCA_OPTIONS", "cdata"),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """A network device.

    :ivar kind: kind of a virtual device, such as ``ifb``; empty for hardware.
    """

    index: int
    name: str
    kind: str
    queue_packets: int
    up: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Qdisc:
    """A queueing discipline; see tc(8)."""

    index: int
    kind: str
    handle: int
    parent: int


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """A filter at a queueing discipline; see tc(8)."""

    kind: str
    preference: int


class TrafficControl:
    """Reads and changes traffic control; a context manager for its sockets.

    Every method raises ``pyroute2.NetlinkError`` if the kernel refuses.
    Reading needs no privileges; changing needs CAP_NET_ADMIN.
    """

    def __enter__(self) -> TrafficControl:
        self._route = pyroute2.IPRoute()
        self._socket = nlsocket.NetlinkSocket(family=netlink.NETLINK_ROUTE)
        self._socket.bind()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._socket.close()
        self._route.close()

    # Reading.

    def links(self) -> Iterator[Link]:
        """Return all network devices."""
        for message in self._route.get_links():
            info = message.get_attr("IFLA_LINKINFO")
            kind = info.get_attr("IFLA_INFO_KIND") if info else None
            yield Link(
                index=message["index"],
                name=message.get_attr("IFLA_IFNAME"),
                kind=kind or "",
                queue_packets=message.get_attr("IFLA_TXQLEN") or 0,
                up=bool(message["flags"] & rtnl.ifinfmsg.IFF_UP),
            )

    def link(self, name: str) -> Link | None:
        """Return the network device with this name, or None."""
        return next((one for one in self.links() if one.name == name), None)

    def qdiscs(self) -> list[Qdisc]:
        """Return the queueing disciplines of all devices."""
        return [
            Qdisc(
                index=message["index"],
                kind=message.get_attr("TCA_KIND"),
                handle=message["handle"],
                parent=message["parent"],
            )
            for message in self._route.get_qdiscs()
        ]

    def filters(self, index: int, parent: int) -> list[Filter]:
        """Return the filters attached to a parent on a device."""
        return [
            Filter(message.get_attr("TCA_KIND"), message["info"] >> 16)
            for message in self._route.get_filters(index=index, parent=parent)
        ]

    # Changing.

    def add_ifb(self, name: str) -> None:
        """Create an intermediate device for traffic."""
        self._route.link("add", ifname=name, kind="ifb")

    def set_up(self, index: int) -> None:
        self._route.link("set", index=index, state="up")

    def delete_link(self, index: int) -> None:
        """Delete a virtual device."""
        self._route.link("del", index=index)

    def add_htb(
        self, index: int, handle: int, default_class: int, direct_packets: int
    ) -> None:
        """Set an HTB at the root of a device.

        :param default_class: minor number of the class for packets that no
            filter matches; 0 sends them directly, bypassing all classes.
        :param direct_packets: maximum number of such direct packets that wait
            for the device.
        """
        init = struct.pack("=IIIII", _HTB_VERSION, 10, default_class, 0, 0)
        options = _attributes(
            {
                _TCA_HTB_INIT: init,
                _TCA_HTB_DIRECT_QLEN: struct.pack("=I", direct_packets),
            }
        )
        self._send(
            rtnl.RTM_NEWQDISC, _CREATE, index, "htb", handle, ROOT, options
        )

    def put_class(self, index: int, handle: int, bytes_per_s: int) -> None:
        """Create a class of an HTB, or change its rate."""
        self._send(
            rtnl.RTM_NEWTCLASS,
            netlink.NLM_F_CREATE,
            index,
            "htb",
            handle,
            handle & 0xFFFF0000,
            _attributes(_class_options(bytes_per_s)),
        )

    def put_queue(
        self, index: int, handle: int, parent: int, bytes_per_s: int
    ) -> None:
        """Create a queue of a class; its length depends on the rate."""
        limit_bytes = max(_MIN_QUEUE_BYTES, int(bytes_per_s * _QUEUE_S))
        self._send(
            rtnl.RTM_NEWQDISC,
            _CREATE_OR_CHANGE,
            index,
            "bfifo",
            handle,
            parent,
            struct.pack("=I", min(limit_bytes, _MAX_U32)),
        )

    def add_ingress(self, index: int) -> None:
        """Add the ingress qdisc, to which filters can be attached."""
        self._send(
            rtnl.RTM_NEWQDISC,
            _CREATE,
            index,
            "ingress",
            INGRESS_HANDLE,
            INGRESS,
        )

    def delete_qdisc(self, qdisc: Qdisc) -> None:
        """Delete a queueing discipline and everything in it."""
        self._send(
            rtnl.RTM_DELQDISC,
            0,
            qdisc.index,
            qdisc.kind,
            qdisc.handle,
            qdisc.parent,
        )

    def put_class_filter(
        self,
        index: int,
        parent: int,
        preference: int,
        program: bytes,
        class_handle: int,
    ) -> None:
        """Direct packets that a program accepts to a class."""
        target = {_TCA_BPF_CLASSID: struct.pack("=I", class_handle)}
        self._put_filter(index, parent, preference, program, target)

    def put_redirect_filter(
        self,
        index: int,
        parent: int,
        preference: int,
        program: bytes,
        to_index: int,
    ) -> None:
        """Redirect packets that a program accepts to another device."""
        # index, capab, action, refcnt, bindcnt; eaction, ifindex
        redirect = struct.pack(
            "=IIiiiiI", 0, 0, _TC_ACT_STOLEN, 0, 0, _TCA_EGRESS_REDIR, to_index
        )
        action = {
            _TCA_ACT_KIND: b"mirred\0",
            _TCA_ACT_OPTIONS: _attributes({_TCA_MIRRED_PARMS: redirect}),
        }
        target = {_TCA_BPF_ACT: _attributes({1: _attributes(action)})}
        self._put_filter(index, parent, preference, program, target)

    def delete_filter(self, index: int, parent: int, preference: int) -> None:
        self._send(
            rtnl.RTM_DELTFILTER,
            0,
            index,
            "bpf",
            0,
            parent,
            info=preference << 16,
        )

    def _put_filter(
        self,
        index: int,
        parent: int,
        preference: int,
        program: bytes,
        target: Mapping[int, bytes],
    ) -> None:
        options = {
            **target,
            _TCA_BPF_OPS_LEN: struct.pack("=H", len(program) // 8),
            _TCA_BPF_OPS: program,
        }
        self._send(
            rtnl.RTM_NEWTFILTER,
            netlink.NLM_F_CREATE,
            index,
            "bpf",
            1,
            parent,
            _attributes(options),
            info=preference << 16 | socket.htons(_ETH_P_ALL),
        )

    def _send(
        self,
        message_type: int,
        flags: int,
        index: int,
        kind: str,
        handle: int,
        parent: int,
        options: bytes = b"",
        info: int = 0,
    ) -> None:
        message = _Message()
        message["index"] = index
        message["handle"] = handle
        message["parent"] = parent
        message["info"] = info
        message["attrs"] = [("TCA_KIND", kind)]
        if options:
            message["attrs"].append(("TCA_OPTIONS", options))
        answers = self._socket.nlm_request(
            message,
            msg_type=message_type,
            msg_flags=netlink.NLM_F_REQUEST | netlink.NLM_F_ACK | flags,
        )
        # Read the whole answer before the next message is sent; this raises
        # the kernel's error.
        tuple(answers)


def _class_options(bytes_per_s: int) -> dict[int, bytes]:
    burst_s = max(_BURST_S, _LARGEST_PACKET_BYTES / bytes_per_s)
    burst_ticks = min(int(burst_s * 1e9 / _TICK_NS), _MAX_U32)
    rate = struct.pack(
        "=BBHhHI", 0, _LINKLAYER_ETHERNET, 0, 0, 0, min(bytes_per_s, _MAX_U32)
    )
    # buffer, cbuffer, quantum, level, prio
    rest = struct.pack(
        "=IIIII", burst_ticks, burst_ticks, _LARGEST_PACKET_BYTES, 0, 0
    )
    rate64 = struct.pack("=Q", bytes_per_s)
    return {
        _TCA_HTB_PARMS: rate + rate + rest,
        _TCA_HTB_RATE64: rate64,
        _TCA_HTB_CEIL64: rate64,
    }


def _attributes(values: Mapping[int, bytes]) -> bytes:
    """Pack netlink attributes: length, type, value, padding."""
    packed = bytearray()
    for number, value in values.items():
        packed += struct.pack("=HH", 4 + len(value), number) + value
        packed += bytes(-len(packed) % 4)
    return bytes(packed)
