# SPDX-License-Identifier: Apache-2.0

"""List the accelerators of the pool."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import shown
from fpgapool.client.doors import asking
from fpgapool.client.doors import poolapi
from fpgapool.client.transfers import transfer
from fpgapool.vocabulary import capacity


@dataclasses.dataclass(frozen=True)
class Accelerator(shown.ShownFields):
    """An accelerator that sessions can use.

    :ivar params_schema: JSON schema of its parameters.
    :ivar peak_bytes_per_s: maximum input in bytes per second.
    :ivar return_ratio: output bytes per byte of input.
    :ivar stateless: whether a session can continue in another slot.
    :ivar chunk_multiple_bytes: the length of every piece of input, except the
        last, is a multiple of this.
    :ivar slots: number of the pool's slots whose shape it fits.
    :ivar free_slots: number of these slots that are idle now.
    """

    name: str
    description: str
    params_schema: Mapping[str, Any]
    peak_bytes_per_s: float
    return_ratio: float
    stateless: bool
    chunk_multiple_bytes: int
    slots: int
    free_slots: int


def accelerators(
    *,
    front_door: str | poolapi.PoolApi | None = None,
    timeout_s: float | None = None,
    cancel: threading.Event | cancelling.CancelToken | None = None,
    require_tls: bool | None = None,
) -> list[Accelerator]:
    """List the accelerators that this program can use, by name.

    Parameters and errors are those of :func:`fpgapool.client.acc_open`.
    """
    deadline_s = checks.deadline(timeout_s)

    def ask(operation: str, **arguments: object) -> Mapping[str, Any]:
        (reply,) = asking.ask(
            [(operation, arguments)],
            front_door=front_door,
            timeout_s=transfer.left_s(deadline_s),
            cancel=cancel,
            require_tls=require_tls,
        )
        return reply

    try:
        reply = ask("accelerators")
        profiles = list(reply["accelerators"])
        while "next" in reply:
            reply = ask("accelerators", after=reply["next"])
            profiles += reply["accelerators"]
        if not all("slots" in one for one in profiles):
            # The API does not count slots; neither do older front doors.
            slots = _slots(ask("pool")["summary"])
            profiles = [{**one, **capacity.of(one, slots)} for one in profiles]
        names = [field.name for field in dataclasses.fields(Accelerator)]
        found = [
            Accelerator(**{name: profile[name] for name in names})
            for profile in profiles
        ]
    except (AttributeError, KeyError, TypeError) as exc:
        raise errors.FrontDoorUnavailable(
            f"the front door's reply is malformed: {exc!r}"
        ) from exc
    return sorted(found, key=lambda one: one.name)


def _slots(summary: Mapping[str, Any]) -> capacity.Slots:
    """Return the numbers of slots in a summary of the pool."""
    if "counts" not in summary:
        return capacity.of_hosts(summary["hosts"])
    found: capacity.Slots = summary["counts"]["slots"]
    return found
