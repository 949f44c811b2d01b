# SPDX-License-Identifier: Apache-2.0

"""Asking which accelerators the pool has."""

from __future__ import annotations

import collections.abc
import dataclasses
import threading
import typing

from fpgapool.client import apidoor
from fpgapool.client import asking
from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.vocabulary import states


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """An accelerator that sessions can have.

    :ivar params_schema: JSON schema of its parameters.
    :ivar peak_bytes_per_s: input per second, at most.
    :ivar return_ratio: output bytes per byte of input.
    :ivar stateless: whether a session can go on in another slot.
    :ivar chunk_multiple_bytes: every piece of input but the last is a
        multiple of this.
    :ivar slots: how many slots of the pool have a shape that it fits.
    :ivar free_slots: those of them that are idle now.
    """

    name: str
    description: str
    params_schema: collections.abc.Mapping[str, typing.Any]
    peak_bytes_per_s: float
    return_ratio: float
    stateless: bool
    chunk_multiple_bytes: int
    slots: int
    free_slots: int


def accelerators(
    *,
    front_door: str | apidoor.PoolApi | None = None,
    timeout_s: float | None = None,
    cancel: threading.Event | cancelling.CancelToken | None = None,
    require_tls: bool | None = None,
) -> list[Accelerator]:
    """List the accelerators that this program can use, by name.

    Parameters and errors are those of :func:`fpgapool.client.acc_open`.
    """
    library, pool = asking.ask(
        [("accelerators", {}), ("pool", {})],
        front_door=front_door,
        timeout_s=timeout_s,
        cancel=cancel,
        require_tls=require_tls,
    )
    try:
        slots = list(_slots(pool["summary"]))
        found = [_read(one, slots) for one in library["accelerators"]]
    except (KeyError, TypeError) as exc:
        raise errors.FrontDoorUnavailable(
            f"the front door's answer is malformed: {exc!r}"
        ) from exc
    return sorted(found, key=lambda one: one.name)


def _slots(
    summary: typing.Any,
) -> collections.abc.Iterator[tuple[str, bool]]:
    """Yield the shape of each slot, and whether it is free."""
    for host in summary["hosts"]:
        for device in host["devices"]:
            for slot in device["slots"]:
                is_free = slot["state"] == states.SLOT_IDLE
                usable = host["up"] and device["healthy"]
                yield slot["shape"], usable and is_free


def _read(profile: typing.Any, slots: list[tuple[str, bool]]) -> Accelerator:
    # Without shapes it fits all slots.
    shapes = profile["shapes"] or {shape for shape, _ in slots}
    fitting = [free for shape, free in slots if shape in shapes]
    return Accelerator(
        name=profile["name"],
        description=profile["description"],
        params_schema=profile["params_schema"],
        peak_bytes_per_s=profile["peak_bytes_per_s"],
        return_ratio=profile["return_ratio"],
        stateless=profile["stateless"],
        chunk_multiple_bytes=profile["chunk_multiple_bytes"],
        slots=len(fitting),
        free_slots=sum(fitting),
    )
