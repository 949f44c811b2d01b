# SPDX-License-Identifier: Apache-2.0

"""The settings of a worker process: one JSON document from its agent."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool.common.channels import channel
from fpgapool.protocol import frames

INVALID_SETTINGS = "INVALID_SETTINGS"

_MIN_CHUNK_BYTES = 4096


class InvalidSettings(ValueError):
    """The document cannot be used.

    :ivar code: stable machine-readable code.
    """

    code = INVALID_SETTINGS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a worker.

    :ivar worker_id: name of this worker in logs.
    :ivar device: name of the device.
    :ivar slot: number of the slot in it.
    :ivar state_dir: directory of the host's pool state.
    :ivar control_socket: path where the agent connects.
    :ivar data_socket: path where clients of the host connect.
    :ivar driver: ``module:Class`` of the driver.
    :ivar driver_settings: settings of the driver, besides ``state_dir``.
    :ivar data_address: address where other clients connect; None for none.
    :ivar data_ports: first and last port to try there; 0 for any.
    :ivar tls: whether connections to ``data_address`` are encrypted.
    :ivar chunk_bytes: longest piece of input or output in one frame.
    :ivar window_chunks: chunks that may be on their way in one direction.
    :ivar block_cache_bytes: memory for blocks that clients refer to; 0: none.
    :ivar hello_timeout_s: how long a connection may take to identify itself.
    :ivar send_timeout_s: how long a client may take to accept a frame before
        its connection counts as lost.
    :ivar clear_timeout_s: how long a session's core may take to stop when
        the session ends; after that the process ends with it.
    :ivar orphan_s: how long to live with neither agent nor session.
    :ivar exit_with_agent: whether to end when the agent's connection does.
    :ivar log_file: path of the log; None for standard error.
    :ivar log_level: name of the lowest level that is logged.
    :ivar made_for: told to agents: they replace a worker that they would have
        started otherwise.
    """

    worker_id: str
    device: str
    slot: int
    state_dir: str
    control_socket: str
    data_socket: str
    driver: str
    driver_settings: dict[str, typing.Any] = dataclasses.field(
        default_factory=dict
    )
    data_address: str | None = None
    data_ports: tuple[int, int] = (0, 0)
    tls: bool = True
    chunk_bytes: int = 4 * 1024 * 1024
    window_chunks: int = 8
    block_cache_bytes: int = 256 * 1024 * 1024
    hello_timeout_s: float = 5.0
    send_timeout_s: float = 60.0
    clear_timeout_s: float = 10.0
    orphan_s: float = 600.0
    exit_with_agent: bool = False
    log_file: str | None = None
    log_level: str = "INFO"
    made_for: str = ""

    @property
    def log_name(self) -> str:
        """Names the worker in its log."""
        return self.worker_id

    @property
    def window_bytes(self) -> int:
        """Bytes that may be unacknowledged in one direction."""
        return self.chunk_bytes * self.window_chunks


_TEXTS = (
    "worker_id",
    "device",
    "state_dir",
    "control_socket",
    "data_socket",
    "driver",
)
_INTEGERS = {
    "slot": (0, 4095),
    "chunk_bytes": (_MIN_CHUNK_BYTES, frames.MAX_DATA_BYTES),
    # A client delays the acknowledgement of up to a quarter of the window, and
    # a whole chunk needs room besides: a window of one chunk would stall.
    "window_chunks": (2, 1024),
    "block_cache_bytes": (0, 2**50),
}
_SECONDS = (
    "hello_timeout_s",
    "send_timeout_s",
    "clear_timeout_s",
    "orphan_s",
)
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_CHECKS: dict[str, Callable[[typing.Any], bool]] = {
    "driver_settings": lambda value: isinstance(value, dict),
    "data_address": lambda value: isinstance(value, str | None),
    "log_file": lambda value: isinstance(value, str | None),
    "tls": lambda value: isinstance(value, bool),
    "exit_with_agent": lambda value: isinstance(value, bool),
    "log_level": lambda value: value in LEVELS,
    "made_for": lambda value: isinstance(value, str),
}


def parse(text: str | bytes) -> Settings:
    """Parse and check a settings document.

    Members that this version does not know are ignored, so that an agent may
    be newer than its workers.

    :param text: JSON.
    :returns: the settings.
    :raises InvalidSettings: with the member and the fault.
    """
    members = checked(
        text, Settings, _TEXTS, _CHECKS, integers=_INTEGERS, seconds=_SECONDS
    )
    if "slot" not in members:
        raise InvalidSettings("slot: missing")
    for name in ("control_socket", "data_socket"):
        if len(members[name].encode()) > channel.MAX_UNIX_PATH_BYTES:
            raise InvalidSettings(
                f"{name}: longer than {channel.MAX_UNIX_PATH_BYTES} bytes"
            )
    return Settings(**members)


def checked(
    text: str | bytes,
    cls: type,
    texts: Iterable[str],
    checks: Mapping[str, Callable[[typing.Any], bool]],
    *,
    integers: Mapping[str, tuple[int, int]],
    seconds: Iterable[str],
) -> dict[str, typing.Any]:
    """Parse a settings document, and check its members.

    :param text: JSON.
    :param cls: a dataclass, whose other members are left out.
    :param texts: the members that must be there, and are texts.
    :param checks: whether a value is right, for members that may be missing.
    :param integers: lowest and highest value of such members …
    :param seconds: … and those that are times above 0.
    :returns: the members; ``data_ports`` is read.
    :raises InvalidSettings: with the member and the fault.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidSettings(f"not JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise InvalidSettings("not a JSON object")
    known = {field.name for field in dataclasses.fields(cls)}
    members = {
        name: value for name, value in document.items() if name in known
    }
    for name in texts:
        if not isinstance(members.get(name), str) or not members[name]:
            raise InvalidSettings(f"{name}: must be a text")
    for name, check in checks.items():
        if name in members and not check(members[name]):
            raise InvalidSettings(f"{name}: is not a valid value")
    for name, (lowest, highest) in integers.items():
        value = members.get(name, lowest)
        if not is_integer(value) or not lowest <= value <= highest:
            raise InvalidSettings(
                f"{name}: must be an integer from {lowest} to {highest}"
            )
    for name in seconds:
        value = members.get(name, 1.0)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not (math.isfinite(value) and value > 0)
        ):
            raise InvalidSettings(f"{name}: must be a number above 0")
    if "data_ports" in members:
        members["data_ports"] = ports(members["data_ports"])
    return members


def is_integer(value: object) -> typing.TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def ports(value: object) -> tuple[int, int]:
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
            is_integer(first)
            and is_integer(last)
            and (first > 0 or last == 0)
            and 0 <= first <= last <= 65535
        ):
            return first, last
    raise InvalidSettings("data_ports: must be 0, a port, or first-last")
