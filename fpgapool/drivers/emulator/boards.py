#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The file that describes the emulated boards of a host."""

from __future__ import annotations

import dataclasses
import math
import os
import typing

from fpgapool.drivers import base

MAX_BOARDS = 64
MAX_SLOTS = 64

_FILE_MEMBERS = ("rate_scale", "unlimited", "boards")
_BOARD_MEMBERS = (
    "name",
    "model",
    "dma_bytes_per_s",
    "programming_time_s",
    "shape",
    "slots",
    "idle_power_w",
    "active_power_w",
    "faults",
)
_FAULT_MEMBERS = ("unhealthy", "programming", "scrub")


@dataclasses.dataclass(frozen=True, slots=True)
class Faults:
    """What is broken on purpose.

    :ivar unhealthy: what the board's health says, None if it is well.
    :ivar programming: slots whose programming fails.
    :ivar scrub: slots whose scrubbing fails.
    """

    unhealthy: str | None = None
    programming: frozenset[int] = frozenset()
    scrub: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Board:
    """One emulated board; power is drawn by the board and each busy slot."""

    name: str
    model: str
    dma_bytes_per_s: float
    programming_time_s: float
    shape: str
    slots: int
    idle_power_w: float
    active_power_w: float
    faults: Faults


@dataclasses.dataclass(frozen=True, slots=True)
class Boards:
    """All emulated boards of a host.

    :ivar rate_scale: factor of every rate, None if rates are unlimited.
    :ivar boards: the boards, in the order of the file.
    """

    rate_scale: float | None
    boards: tuple[Board, ...]


def read_boards(path: str | os.PathLike[str]) -> Boards:
    """Read and check a boards file.

    :param path: of the YAML file.
    :returns: the boards.
    :raises base.DriverError: ``INVALID_SETTINGS`` with the file, the member
        and what is wrong with it.
    """
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            document = yaml.load(file, Loader=_loader(yaml))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise base.DriverError(
            base.INVALID_SETTINGS, f"boards file {path}: {exc}"
        ) from exc
    return _Checker(os.fspath(path)).boards(document)


def _loader(yaml: typing.Any) -> typing.Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Checker:
    """Turns the decoded file into boards, or says what is wrong where."""

    def __init__(self, path: str) -> None:
        self._path = path

    def boards(self, document: object) -> Boards:
        members = self._members(document, "file", _FILE_MEMBERS)
        entries = members.get("boards")
        if not isinstance(entries, list):
            raise self._error("boards", "must be a list")
        if len(entries) > MAX_BOARDS:
            raise self._error("boards", f"must not be more than {MAX_BOARDS}")
        boards = tuple(
            self._board(entry, f"boards[{index}]")
            for index, entry in enumerate(entries)
        )
        names = [board.name for board in boards]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise self._error(
                    f"boards[{index}].name", f"{name!r} is there twice"
                )
        return Boards(self._rate_scale(members), boards)

    def _rate_scale(self, members: dict[str, typing.Any]) -> float | None:
        unlimited = members.get("unlimited", False)
        if not isinstance(unlimited, bool):
            raise self._error("unlimited", "must be true or false")
        if unlimited and "rate_scale" in members:
            raise self._error(
                "rate_scale", "has no meaning when unlimited is true"
            )
        scale = self._number(members, "", "rate_scale", 1.0, 1e-6, 1e6)
        return None if unlimited else scale

    def _board(self, entry: object, where: str) -> Board:
        members = self._members(entry, where, _BOARD_MEMBERS)
        where += "."
        slots = members.get("slots")
        if (
            isinstance(slots, bool)
            or not isinstance(slots, int)
            or not 1 <= slots <= MAX_SLOTS
        ):
            raise self._error(
                f"{where}slots", f"must be an integer from 1 to {MAX_SLOTS}"
            )
        number = self._number
        return Board(
            name=self._name(members, where, "name", None),
            model=self._name(members, where, "model", "emulated"),
            dma_bytes_per_s=number(
                members, where, "dma_bytes_per_s", 2.1e9, 1, 1e15
            ),
            programming_time_s=number(
                members, where, "programming_time_s", 0.0, 0, 3600
            ),
            shape=self._name(members, where, "shape", "any"),
            slots=slots,
            idle_power_w=number(members, where, "idle_power_w", 20, 0, 1e4),
            active_power_w=number(members, where, "active_power_w", 5, 0, 1e4),
            faults=self._faults(members, where, slots),
        )

    def _faults(
        self, members: dict[str, typing.Any], where: str, slots: int
    ) -> Faults:
        where += "faults"
        faults = self._members(
            members.get("faults", {}), where, _FAULT_MEMBERS
        )
        unhealthy = faults.get("unhealthy")
        if not (unhealthy is None or isinstance(unhealthy, str)):
            raise self._error(f"{where}.unhealthy", "must be a text")
        return Faults(
            unhealthy,
            self._slots(faults, where, "programming", slots),
            self._slots(faults, where, "scrub", slots),
        )

    def _slots(
        self,
        members: dict[str, typing.Any],
        where: str,
        member: str,
        slots: int,
    ) -> frozenset[int]:
        value = members.get(member, [])
        if not isinstance(value, list) or not all(
            number in range(slots) for number in value
        ):
            raise self._error(
                f"{where}.{member}", "must be a list of slot numbers"
            )
        return frozenset(value)

    def _members(
        self, document: object, where: str, known: tuple[str, ...]
    ) -> dict[str, typing.Any]:
        if not isinstance(document, dict):
            raise self._error(where, "must be a mapping")
        for member in document:
            if member not in known:
                raise self._error(
                    f"{where}.{member}",
                    f"unknown member; there are: {', '.join(known)}",
                )
        return document

    def _name(
        self,
        members: dict[str, typing.Any],
        where: str,
        member: str,
        default: str | None,
    ) -> str:
        value = members.get(member, default)
        if not isinstance(value, str) or not base.NAME_PATTERN.fullmatch(
            value
        ):
            raise self._error(
                f"{where}{member}",
                "must be a name of up to 64 letters, digits and any of _.-",
            )
        return value

    def _number(
        self,
        members: dict[str, typing.Any],
        where: str,
        member: str,
        default: float,
        lowest: float,
        highest: float,
    ) -> float:
        value = members.get(member, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
            or not lowest <= value <= highest
        ):
            # YAML 1.1 reads 2e9 as a text: say so, it is easily overlooked.
            hint = "; write 2.0e+9, not 2e9" if isinstance(value, str) else ""
            raise self._error(
                f"{where}{member}",
                f"must be a number from {lowest:g} to {highest:g}{hint}",
            )
        return float(value)

    def _error(self, member: str, reason: str) -> base.DriverError:
        return base.DriverError(
            base.INVALID_SETTINGS,
            f"boards file {self._path}: {member}: {reason}",
        )
