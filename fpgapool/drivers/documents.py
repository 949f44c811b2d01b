# SPDX-License-Identifier: Apache-2.0

"""Reading the YAML files of drivers, with errors that name the place."""

from __future__ import annotations

import math
import os
import typing

from fpgapool.drivers import base
from fpgapool.vocabulary import codes

#: In a boards file: the most that the slots of the host may take together.
POWER_CAP_W = "power_cap_w"

_MAX_POWER_CAP_W = 1e6


class _Named(typing.Protocol):
    @property
    def name(self) -> str:
        """Name of the board."""


_Board = typing.TypeVar("_Board", bound=_Named)


def file_version(path: str | os.PathLike[str]) -> str:
    """Return the version of a file.

    :returns: a text that changes when the file is written or replaced.
    :raises OSError: if there is no such file.
    """
    return _version(os.stat(path))


def _version(found: os.stat_result) -> str:
    return f"{found.st_ino}.{found.st_mtime_ns}.{found.st_size}"


class Checker:
    """Checks a decoded file, with errors that name the place.

    :param kind: the kind of the file, for messages.

    :ivar version: of the file that was read; see :func:`file_version`.
    """

    def __init__(self, kind: str, path: str | os.PathLike[str]) -> None:
        self._kind = kind
        self._path = os.fspath(path)
        self.version = ""

    def read(self) -> object:
        """Decode the file.

        :returns: its contents.
        :raises base.DriverError: ``INVALID_SETTINGS`` if it cannot be read.
        """
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            with open(self._path, encoding="utf-8") as file:
                # Of the open file: the path may already lead to another one.
                self.version = _version(os.fstat(file.fileno()))
                document: object = yaml.load(file, Loader=loader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
            raise base.DriverError(
                codes.INVALID_SETTINGS, f"{self._kind} {self._path}: {exc}"
            ) from exc
        return document

    def members(
        self, document: object, where: str, known: typing.Collection[str]
    ) -> dict[str, typing.Any]:
        """Check that a value is a mapping without unknown members.

        :param where: its place in the file.
        :returns: the mapping.
        """
        if not isinstance(document, dict):
            raise self.error(where, "must be a mapping")
        for member in document:
            if member not in known:
                raise self.error(
                    f"{where}.{member}",
                    f"unknown member; known are: {', '.join(known)}",
                )
        return document

    def boards(
        self,
        entries: typing.Sequence[object],
        read: typing.Callable[[Checker, object, str], _Board],
    ) -> tuple[_Board, ...]:
        """Read the entries of boards, whose names must differ.

        :param entries: the list ``boards``.
        :param read: reads an entry, given its place.
        :returns: the boards.
        """
        boards = tuple(
            read(self, entry, f"boards[{index}]")
            for index, entry in enumerate(entries)
        )
        names = [board.name for board in boards]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise self.error(
                    f"boards[{index}].name", f"{name!r} is not unique"
                )
        return boards

    def name(
        self,
        members: dict[str, typing.Any],
        where: str,
        member: str,
        default: str | None,
    ) -> str:
        """Check that a member is a name."""
        value = members.get(member, default)
        if not isinstance(value, str) or not base.NAME_PATTERN.fullmatch(
            value
        ):
            raise self.error(
                f"{where}{member}",
                "must be a name of up to 64 letters, digits and any of _.-",
            )
        return value

    def number(
        self,
        members: dict[str, typing.Any],
        where: str,
        member: str,
        default: float,
        lowest: float,
        highest: float,
    ) -> float:
        """Check that a member is a number within bounds."""
        value = members.get(member, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
            or not lowest <= value <= highest
        ):
            # YAML 1.1 reads 2e9 as a text, which is easily overlooked.
            hint = "; write 2.0e+9, not 2e9" if isinstance(value, str) else ""
            raise self.error(
                f"{where}{member}",
                f"must be a number from {lowest:g} to {highest:g}{hint}",
            )
        return float(value)

    def flag(
        self, members: dict[str, typing.Any], where: str, member: str
    ) -> bool:
        """Check that a member is true or false; it is false by default."""
        value = members.get(member, False)
        if not isinstance(value, bool):
            raise self.error(f"{where}{member}", "must be true or false")
        return value

    def power_cap_w(self, members: dict[str, typing.Any]) -> float | None:
        """Return the cap on power in a boards file; None: it has none."""
        if POWER_CAP_W not in members:
            return None
        return self.number(members, "", POWER_CAP_W, 0, 0, _MAX_POWER_CAP_W)

    def error(self, member: str, reason: str) -> base.DriverError:
        """Return the error of a member."""
        return base.DriverError(
            codes.INVALID_SETTINGS,
            f"{self._kind} {self._path}: {member}: {reason}",
        )
