# SPDX-License-Identifier: Apache-2.0

"""Reads drivers' YAML files; error messages name the place in the file."""

from __future__ import annotations

import collections.abc
import os
import typing

from fpgapool.drivers import base
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes

_T = typing.TypeVar("_T")


class _Named(typing.Protocol):
    @property
    def name(self) -> str:
        """Name of the board."""


_Board = typing.TypeVar("_Board", bound=_Named)

NAME = shapes.matching(
    base.NAME_PATTERN, "a name of up to 64 letters, digits and any of _.-"
)


def number(least: float, most: float) -> shapes.Shape[float]:
    """Return the shape of numbers; see :func:`shapes.number`."""
    check = shapes.number(float(least), float(most))

    def checked(value: object, where: str) -> float:
        try:
            return check(value, where)
        except shapes.Invalid as error:
            # YAML 1.1 reads 2e9 as a string, which is easy to overlook.
            hint = "; write 2.0e+9, not 2e9" if isinstance(value, str) else ""
            raise shapes.Invalid(where, error.reason + hint) from None

    return checked


#: Member of boards files: maximum power that the host's slots may draw.
POWER_CAP = {"power_cap_w": number(0, 1e6)}


def boards(
    shape: shapes.Shape[_Board], least: int, most: int
) -> shapes.Shape[tuple[_Board, ...]]:
    """Return the shape of lists of boards with unique names."""
    entries = shapes.list_of(shape, least, most)

    def check(value: object, where: str) -> tuple[_Board, ...]:
        found = entries(value, where)
        names = [board.name for board in found]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise shapes.Invalid(
                    f"{where}[{index}].name", f"{name!r} is not unique"
                )
        return tuple(found)

    return check


#: The last contents of each file, with the shape that checked them and their
#: version. A forked process has those that its parent has read.
_READ: dict[str | os.PathLike[str], tuple[object, str, typing.Any]] = {}


def file_version(path: str | os.PathLike[str]) -> str:
    """Return a string that changes when a file is written or replaced.

    :raises OSError: if there is no such file.
    """
    return _version(os.stat(path))


def _version(found: os.stat_result) -> str:
    return f"{found.st_ino}.{found.st_mtime_ns}.{found.st_size}"


def load(path: str | os.PathLike[str]) -> tuple[bytes, str]:
    """Return a file's contents and version; see :func:`file_version`.

    :raises OSError: if it cannot be read.
    """
    with open(path, "rb") as file:
        # Use the open file's version: the path may already name another file.
        return file.read(), _version(os.fstat(file.fileno()))


def read(
    kind: str,
    path: str | os.PathLike[str],
    shape: shapes.Shape[_T],
    loaded: collections.abc.Callable[[], tuple[bytes, str]] | None = None,
) -> tuple[_T, str]:
    """Read and check a file; what has not changed is checked only once.

    :param loaded: replaces :func:`load` in processes that cannot read it.
    :returns: its checked contents and its version; see :func:`file_version`.
    :raises base.DriverError: ``INVALID_SETTINGS``, naming the file, the member
        and the error.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        contents, version = load(path) if loaded is None else loaded()
        last = _READ.get(path)
        if last is not None and last[:2] == (shape, version):
            return last[2], version
        checked = shape(yaml.load(contents.decode("utf-8"), Loader=loader), "")
        _READ[path] = shape, version, checked
        return checked, version
    except (
        OSError,
        UnicodeDecodeError,
        yaml.YAMLError,
        shapes.Invalid,
    ) as exc:
        raise base.DriverError(
            codes.INVALID_SETTINGS, f"{kind} {os.fspath(path)}: {exc}"
        ) from exc
