# SPDX-License-Identifier: Apache-2.0

"""The settings of a process: one JSON document from its agent.

The annotation of a dataclass field defines which values are valid; ``number``
and ``one_of`` restrict them further. Unknown members are ignored, so that an
agent may be newer than its processes.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Collection

from fpgapool.common.channels import channel
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes

ISOLATION_NONE, ISOLATION_PREFERRED, ISOLATION_REQUIRED = ISOLATIONS = (
    *("none", "preferred", "required"),
)
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_SHAPE = "shape"

_S = typing.TypeVar("_S", bound="ChildSettings")


class InvalidSettings(ValueError):
    """The document is invalid; the message names the member."""

    code = codes.INVALID_SETTINGS


def checked(
    shape: shapes.Shape[typing.Any], **default: typing.Any
) -> typing.Any:
    """Declare a field whose value is checked and converted by a shape."""
    return dataclasses.field(metadata={_SHAPE: shape}, **default)


def number(lowest: int, highest: int, **default: int) -> typing.Any:
    """Declare an integer within bounds."""
    return checked(shapes.integer(lowest, highest), **default)


def one_of(values: Collection[str], default: str) -> typing.Any:
    """Declare a string that is one of several."""
    return checked(shapes.one_of(values), default=default)


_TEXT = shapes.text(least=1)


def _path(value: object, where: str) -> str:
    """Check the path of a socket."""
    path = shapes.text(least=1, storable=True)(value, where)
    if len(path.encode()) > channel.MAX_UNIX_PATH_BYTES:
        raise shapes.Invalid(
            where, f"must be at most {channel.MAX_UNIX_PATH_BYTES} bytes"
        )
    return path


def ports(value: object, where: str) -> tuple[int, int]:
    """Read ``0``, a port, ``"first-last"`` or ``[first, last]``."""
    ends: list[object]
    if isinstance(value, str):
        ends = [
            int(end) if end.strip().isdecimal() else end
            for end in value.split("-")
        ]
    else:
        ends = value if isinstance(value, list) else [value]
    if 1 <= len(ends) <= 2:
        first, last = ends[0], ends[-1]
        if (
            shapes.is_integer(first)
            and shapes.is_integer(last)
            and (first > 0 or last == 0)
            and 0 <= first <= last <= 65535
        ):
            return first, last
    raise shapes.Invalid(
        where, "must be 0, a port, or a range of ports such as 49152-49999"
    )


#: The shapes that check values, by the field's annotation.
_SHAPES: dict[typing.Any, shapes.Shape[typing.Any]] = {
    "str": _TEXT,
    "float": shapes.number(above=0),
    "bool": shapes.flag,
    "str | None": shapes.nullable(shapes.text()),
    "dict[str, typing.Any]": shapes.mapping_of(shapes.anything),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """The settings that workers and desks share.

    :ivar data_socket: path of the socket for clients on this host.
    :ivar data_address: address where other clients connect, or None.
    :ivar data_ports: first and last port to try there; both 0 for any port.
    :ivar block_cache_bytes: memory for clients' blocks in a slot; 0 for none.
    :ivar hello_timeout_s: time in which a connection must identify itself.
    :ivar orphan_s: time after which a process without agent and clients ends.
    :ivar exit_with_agent: whether the process ends when the agent disconnects.
    :ivar isolation: whether the process gives up what it does not need, and
        whether it runs where that is impossible.
    :ivar log_file: path of the log, or None for standard error.
    :ivar cgroup: path of the process's cgroup, or None to stay where it is.
    :ivar memory_bytes: what it may allocate, if it has no cgroup; 0: no limit.
    """

    control_socket: str = checked(_path)
    data_socket: str = checked(_path)
    data_address: str | None = None
    data_ports: tuple[int, int] = checked(ports, default=(0, 0))
    tls: bool = True
    block_cache_bytes: int = number(0, 2**50, default=256 * 1024 * 1024)
    hello_timeout_s: float = 5.0
    orphan_s: float = 600.0
    exit_with_agent: bool = False
    isolation: str = one_of(ISOLATIONS, ISOLATION_PREFERRED)
    log_file: str | None = None
    log_level: str = one_of(LEVELS, "INFO")
    cgroup: str | None = None
    memory_bytes: int = number(0, 2**50, default=0)

    @property
    def log_name(self) -> str:
        raise NotImplementedError


def parse(cls: type[_S], text: str | bytes) -> _S:
    """Parse and check a settings document."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidSettings(f"not JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise InvalidSettings("not a JSON object")
    members = {}
    for field in dataclasses.fields(cls):
        name = field.name
        if name in document:
            shape = field.metadata.get(_SHAPE) or _SHAPES[field.type]
            try:
                members[name] = shape(document[name], name)
            except shapes.Invalid as exc:
                raise InvalidSettings(str(exc)) from exc
        elif (
            field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ):
            raise InvalidSettings(f"{name}: is missing")
    return cls(**members)
