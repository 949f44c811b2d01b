# SPDX-License-Identifier: Apache-2.0

"""Injected faults.

Faults are set for each board in the boards file, or at run time in the faults
file next to it, which should be replaced by renaming a complete file. Whenever
a fault takes effect, ``FAULT INJECTED`` is logged.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import hashlib
import logging
import os
import random
import typing

from fpgapool.drivers import base
from fpgapool.drivers import documents
from fpgapool.drivers.emulator import files
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)

#: The board reports that it is unhealthy, but works.
UNHEALTHY = "unhealthy"
#: The board reports that it is unhealthy, and does not work.
DEAD = "dead"
PROGRAMMING = "programming"
PROGRAMMING_HANG = "programming_hang"
SCRUB = "scrub"
CORE_ERROR = "core_error"
CORE_CRASH = "core_crash"
CORE_HANG = "core_hang"
CORE_SLOW = "core_slow"
WRONG_RESULT = "wrong_result"

#: Faults of a whole board.
BOARD_KINDS = (UNHEALTHY, DEAD)
#: Faults of a slot while it processes a session's data.
CORE_KINDS = (CORE_ERROR, CORE_CRASH, CORE_HANG, CORE_SLOW, WRONG_RESULT)
KINDS = (
    *BOARD_KINDS,
    PROGRAMMING,
    PROGRAMMING_HANG,
    SCRUB,
    *CORE_KINDS,
)

_SLOT = tuple(kind for kind in KINDS if kind not in BOARD_KINDS)
_MAX_BYTES = 2**62


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault to inject.

    :ivar probability: probability that it happens, drawn for each programming,
        scrub or session.
    :ivar after_bytes: it happens only once a session has sent more input than
        this to the slot.
    :ivar slowness: factor by which a slow core takes longer.
    :ivar key: unique identifier, which depends on the version of its file; set
        when the file is read.
    """

    kind: str
    place: str
    device: str
    slot: int | None = None
    probability: float = 1.0
    seed: int = 0
    after_bytes: int = 0
    once: bool = False
    slowness: float = 1.0
    message: str = ""
    key: str = ""

    def hits(self, device: str, slot: int) -> bool:
        """Whether it is a fault of a slot or of its board."""
        return self.device == device and self.slot in (None, slot)


_BOARD_FAULT = shapes.Members(
    {},
    {"message": shapes.text(), "after_bytes": shapes.integer(0, _MAX_BYTES)},
)


def of_board(device: str, slots: int) -> shapes.Shape[tuple[Fault, ...]]:
    """Return the shape of a board's faults: a mapping by kind."""
    of_slots = shapes.Members(
        {}, {kind: shapes.list_of(_slot_fault(kind, slots)) for kind in _SLOT}
    )

    def board_fault(kind: str, value: object, where: str) -> dict[str, object]:
        if isinstance(value, str):
            value = {"message": value}
        elif not isinstance(value, dict):
            raise shapes.Invalid(where, "must be a string or an object")
        return {"message": kind, **_BOARD_FAULT(value, where)}

    def check(value: object, where: str) -> tuple[Fault, ...]:
        found = []
        members = shapes.members(value, where, (), KINDS)
        for kind, given in members.items():
            place = f"{where}.{kind}"
            if given is None:
                continue
            if kind in BOARD_KINDS:
                entries = {place: board_fault(kind, given, place)}
            else:
                listed = of_slots({kind: given}, where)[kind]
                entries = {
                    f"{place}[{index}]": entry
                    for index, entry in enumerate(listed)
                }
            found += [
                Fault(kind=kind, place=place, device=device, **entry)
                for place, entry in entries.items()
            ]
        return tuple(found)

    return check


def _slot_fault(kind: str, slots: int) -> shapes.Shape[dict[str, typing.Any]]:
    amount = shapes.integer(0, _MAX_BYTES)
    shape = shapes.Members(
        {"slowness": documents.number(1, 1e9)} if kind == CORE_SLOW else {},
        {
            "slot": shapes.nullable(shapes.integer(0, slots - 1)),
            "probability": documents.number(0, 1),
            "seed": amount,
            "once": shapes.flag,
            **({"after_bytes": amount} if kind in CORE_KINDS else {}),
        },
    )
    return lambda value, where: shape(
        {"slot": value} if shapes.is_integer(value) else value, where
    )


def read_faults(
    path: str | os.PathLike[str],
    slots: collections.abc.Mapping[str, int],
    loaded: collections.abc.Callable[[], tuple[bytes, str]] | None = None,
) -> tuple[tuple[Fault, ...], str]:
    """Read and check a faults file; see :func:`documents.read`."""
    by_board = shapes.Members(
        {}, {name: of_board(name, count) for name, count in slots.items()}
    )
    return documents.read(
        "faults file",
        path,
        lambda value, where: tuple(
            fault
            # An empty file sets no faults.
            for found in by_board(
                {} if value is None else value, where
            ).values()
            for fault in found
        ),
        loaded,
    )


class Injector:
    """Decides when faults happen.

    State that must survive a process is kept in small files: which faults with
    ``once`` have happened, and how many random draws each slot has made.

    :param there: the host's files; the one with faults may be missing.
    """

    def __init__(self, there: files.Files, asked: files.Asked) -> None:
        self._files = there
        self._asked = asked
        self._path = there.paths[files.FAULTS]
        self._standing: tuple[Fault, ...] = ()
        self._slots: dict[str, int] = {}
        self._version: str | None = None
        self._passing: tuple[Fault, ...] = ()
        self._logged: set[str] = set()

    def set_boards(
        self, faults: tuple[Fault, ...], slots: dict[str, int], version: str
    ) -> None:
        self._standing = _stamped(faults, f"boards.{version}")
        self._slots = slots
        self._version = None

    def _refresh(self) -> None:
        # Usually there is no faults file; this check is cheaper than an
        # exception.
        if self._version == "" and not os.access(self._path, os.F_OK):
            return
        try:
            version = documents.file_version(self._path)
        except OSError:
            version = ""
        if version == self._version:
            return
        self._version = version
        if version:
            self._read()
        else:
            self._passing = ()

    def _read(self) -> None:
        try:
            faults, self._version = read_faults(
                self._path,
                self._slots,
                lambda: files.asked_contents(self._asked("", 0), files.FAULTS),
            )
        except base.DriverError as exc:
            LOG.error("Keeping the previous faults: %s", exc.message)
            return
        self._passing = _stamped(faults, f"faults.{self._version}")
        LOG.warning("%s sets %d faults", self._path, len(faults))

    def in_force(
        self, device: str, slot: int, kinds: collections.abc.Container[str]
    ) -> list[Fault]:
        """List the faults that may happen to a slot or its board."""
        self._refresh()
        return [
            fault
            for fault in (*self._standing, *self._passing)
            if fault.kind in kinds and fault.hits(device, slot)
        ]

    def quiet(self) -> bool:
        self._refresh()
        return not (self._standing or self._passing)

    def strike(
        self, device: str, slot: int, kinds: collections.abc.Container[str]
    ) -> Fault | None:
        """Decide whether a fault strikes an operation on a slot."""
        for fault in self.in_force(device, slot, kinds):
            if self.drawn(fault, device, slot) and self.claim(fault):
                log_fault(fault, slot)
                return fault
        return None

    def board_fault(
        self, device: str, kinds: collections.abc.Container[str] = BOARD_KINDS
    ) -> Fault | None:
        """Return the current fault of a whole board, if it has one."""
        for fault in self.in_force(device, 0, kinds):
            if fault.kind in BOARD_KINDS and (
                not fault.after_bytes
                or self._files.marker(device, fault.key).exists()
            ):
                if fault.key not in self._logged:
                    self._logged.add(fault.key)
                    log_fault(fault, None)
                return fault
        return None

    def drawn(self, fault: Fault, device: str, slot: int) -> bool:
        if fault.probability >= 1:
            return True
        counted = self._asked(device, slot).ask("count_draw", key=fault.key)
        seed = f"{fault.seed}/{fault.place}/{device}/{slot}/{int(counted)}"
        return random.Random(seed).random() < fault.probability

    def claim(self, fault: Fault) -> bool:
        """Decide whether a fault may happen, and record that it does."""
        return not fault.once or self.mark(fault)

    def mark(self, fault: Fault) -> bool:
        """Record that a fault has happened; return whether it is the first."""
        asked = self._asked(fault.device, fault.slot or 0)
        return bool(asked.ask("claim", key=fault.key))


def log_fault(fault: Fault, slot: int | None) -> None:
    where = fault.device if slot is None else f"{fault.device}.{slot}"
    LOG.warning(
        "FAULT INJECTED: %s on %s (%s)", fault.kind, where, fault.place
    )


class SessionFaults:
    def __init__(self, injector: Injector, device: str, slot: int) -> None:
        self._injector = injector
        self._device = device
        self._slot = slot
        self._processed_bytes = 0
        self._drawn: dict[str, bool] = {}
        self._happened: set[str] = set()

    def due(self, piece_bytes: int) -> list[Fault]:
        """List the faults of the next piece of input."""
        self._processed_bytes += piece_bytes
        if self._injector.quiet():
            return []
        due = self._happening()
        dead = self._injector.board_fault(self._device, (DEAD,))
        return due if dead is None else [dead]

    def _happening(self) -> list[Fault]:
        faults = self._injector.in_force(
            self._device, self._slot, (*BOARD_KINDS, *CORE_KINDS)
        )
        return [
            fault
            for fault in faults
            # board_fault() handles a board's unconditional faults.
            if (fault.after_bytes or fault.kind in CORE_KINDS)
            and self._processed_bytes > fault.after_bytes
            and self._happens(fault)
        ]

    def _happens(self, fault: Fault) -> bool:
        key = fault.key
        if key in self._happened:
            # A slow core stays slow until the end of the session.
            return fault.kind == CORE_SLOW or not fault.once
        if key not in self._drawn:
            self._drawn[key] = self._injector.drawn(
                fault, self._device, self._slot
            )
        if not self._drawn[key] or not self._injector.claim(fault):
            return False
        if fault.kind in BOARD_KINDS:
            self._injector.mark(fault)
        self._happened.add(key)
        log_fault(fault, self._slot)
        return True


def _stamped(faults: tuple[Fault, ...], version: str) -> tuple[Fault, ...]:
    return tuple(
        dataclasses.replace(fault, key=_digest(f"{version}/{fault.place}"))
        for fault in faults
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
