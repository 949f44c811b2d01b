# SPDX-License-Identifier: Apache-2.0

"""A cap on the data plane's share of a link.

Outgoing packets of the data plane go through a class of an HTB at the root
of the network device; all other packets bypass it. Incoming ones go through
an intermediate device (ifb) with such a class, so that TCP slows down their
senders. Fixed handles and names mark what fpgapool created: it is updated in
place, and objects without such a mark are never touched.
"""

from __future__ import annotations

import typing
from collections.abc import Callable

import pyroute2

from fpgapool.privsep import tc

# Reasons why there is no cap. They are documented, and operators see them in
# logs and in the service list: do not change the values.
NO_DEVICE = "NO_DEVICE"
FOREIGN_QDISC = "FOREIGN_QDISC"
FOREIGN_DEVICE = "FOREIGN_DEVICE"
KERNEL_REFUSED = "KERNEL_REFUSED"

#: The marks. Administrators use handles below 8000:; the kernel allocates
#: higher ones in ascending order, and is unlikely to get this far.
HANDLE = 0xF69A0000
CLASS = HANDLE | 1
QUEUE_HANDLE = 0xF69B0000
PREFERENCE = 0xF69A
IFB_NAME = "fpgapool-in"


class Problem(typing.TypedDict):
    """The reason why one direction of a link has no cap.

    ``code`` is one of the constants above; ``message`` is human-readable.
    """

    code: str
    message: str


class Outcome(typing.TypedDict):
    """The result of a change, in plain values that can cross processes.

    ``outgoing`` and ``incoming`` are None if they are as requested; ``made``
    says whether anything had to be created or changed.
    """

    outgoing: Problem | None
    incoming: Problem | None
    made: bool


class _Impossible(Exception):
    """One direction cannot get a cap."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.problem = Problem(code=code, message=message)


class Cap:
    """This host's cap in the kernel."""

    def __init__(self, control: tc.TrafficControl) -> None:
        self._control = control
        self._qdiscs = control.qdiscs()
        self._made = False

    def is_on(self, device: str) -> bool:
        """Return whether a device has the cap or a part of it."""
        link = self._control.link(device)
        if link is None:
            return False
        root = self._qdisc(link.index, tc.ROOT)
        return _is_ours(root) or self._has_redirect(link.index)

    def put(self, device: str, bytes_per_s: int, program: bytes) -> Outcome:
        """Set the cap on a device, in both directions; idempotent.

        The cap is removed from all other devices.

        :raises: pyroute2.NetlinkError if it cannot be removed from the others.
        """
        link = self._control.link(device)
        if link is None:
            problem = Problem(
                code=NO_DEVICE, message=f"no such device: {device}"
            )
            return Outcome(outgoing=problem, incoming=problem, made=False)
        self._leave_others(link)
        return Outcome(
            outgoing=_problem(
                lambda: self._put_outgoing(link, bytes_per_s, program)
            ),
            incoming=_problem(
                lambda: self._put_incoming(link, bytes_per_s, program)
            ),
            made=self._made,
        )

    def remove(self) -> None:
        """Remove the cap from all devices; idempotent."""
        for index in {one.index for one in self._qdiscs}:
            self._remove_from(index)
        ifb = self._control.link(IFB_NAME)
        if ifb is not None and ifb.kind == "ifb":
            self._control.delete_link(ifb.index)

    def _leave_others(self, link: tc.Link) -> None:
        ifb = self._control.link(IFB_NAME)
        keep = {link.index} if ifb is None else {link.index, ifb.index}
        for index in {one.index for one in self._qdiscs} - keep:
            self._remove_from(index)

    def _remove_from(self, index: int) -> None:
        root = self._qdisc(index, tc.ROOT)
        if root is not None and _is_ours(root):
            self._control.delete_qdisc(root)
        if not self._has_redirect(index):
            return
        self._control.delete_filter(index, tc.INGRESS_HANDLE, PREFERENCE)
        ingress = self._qdisc(index, tc.INGRESS)
        # Other software may have added filters to the qdisc in the meantime.
        if ingress is not None and not self._ingress_filters(index):
            self._control.delete_qdisc(ingress)

    def _put_outgoing(
        self, link: tc.Link, bytes_per_s: int, program: bytes
    ) -> None:
        self._put_class(link, bytes_per_s, default_class=0)
        self._control.put_class_filter(
            link.index, HANDLE, PREFERENCE, program, CLASS
        )

    def _put_incoming(
        self, link: tc.Link, bytes_per_s: int, program: bytes
    ) -> None:
        self._check_ingress(link)
        ifb = self._put_ifb()
        # Only packets of the data plane arrive here.
        self._put_class(ifb, bytes_per_s, default_class=CLASS - HANDLE)
        if self._qdisc(link.index, tc.INGRESS) is None:
            self._control.add_ingress(link.index)
            self._made = True
        self._control.put_redirect_filter(
            link.index, tc.INGRESS_HANDLE, PREFERENCE, program, ifb.index
        )

    def _put_class(
        self, link: tc.Link, bytes_per_s: int, default_class: int
    ) -> None:
        root = self._qdisc(link.index, tc.ROOT)
        if not _is_ours(root):
            if root is not None and root.handle != tc.KERNELS_HANDLE:
                raise _Impossible(
                    FOREIGN_QDISC,
                    f"{link.name} already has a queueing discipline that"
                    " fpgapool did not create:"
                    f" {root.kind} {root.handle >> 16:x}:",
                )
            self._control.add_htb(
                link.index,
                HANDLE,
                default_class,
                max(link.queue_packets, tc.MIN_DIRECT_PACKETS),
            )
            self._made = True
        self._control.put_class(link.index, CLASS, bytes_per_s)
        self._control.put_queue(link.index, QUEUE_HANDLE, CLASS, bytes_per_s)

    def _put_ifb(self) -> tc.Link:
        ifb = self._control.link(IFB_NAME)
        if ifb is None:
            self._control.add_ifb(IFB_NAME)
            self._made = True
            ifb = self._control.link(IFB_NAME)
        if ifb is None or ifb.kind != "ifb":
            raise _Impossible(
                FOREIGN_DEVICE,
                f"a device named {IFB_NAME} exists, but it is not an ifb",
            )
        if not ifb.up:
            self._control.set_up(ifb.index)
        return ifb

    def _check_ingress(self, link: tc.Link) -> None:
        ingress = self._qdisc(link.index, tc.INGRESS)
        if ingress is None or self._has_redirect(link.index):
            return
        # The qdisc is created before its filter; an earlier run may have died
        # in between.
        abandoned = (
            ingress.kind == "ingress"
            and self._control.link(IFB_NAME) is not None
            and not self._ingress_filters(link.index)
        )
        if not abandoned:
            raise _Impossible(
                FOREIGN_QDISC,
                f"{link.name} already has ingress filters that fpgapool did"
                f" not create ({ingress.kind})",
            )

    def _has_redirect(self, index: int) -> bool:
        return any(
            one.kind == "bpf" and one.preference == PREFERENCE
            for one in self._ingress_filters(index)
        )

    def _ingress_filters(self, index: int) -> list[tc.Filter]:
        # The kernel rejects a query for a qdisc that does not exist.
        if self._qdisc(index, tc.INGRESS) is None:
            return []
        return self._control.filters(index, tc.INGRESS_HANDLE)

    def _qdisc(self, index: int, parent: int) -> tc.Qdisc | None:
        for qdisc in self._qdiscs:
            if (qdisc.index, qdisc.parent) == (index, parent):
                return qdisc
        return None


def _is_ours(root: tc.Qdisc | None) -> bool:
    return root is not None and (root.kind, root.handle) == ("htb", HANDLE)


def _problem(put: Callable[[], None]) -> Problem | None:
    try:
        put()
    except _Impossible as error:
        return error.problem
    except pyroute2.NetlinkError as error:
        return Problem(code=KERNEL_REFUSED, message=str(error))
    return None
