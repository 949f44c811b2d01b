# SPDX-License-Identifier: Apache-2.0

"""Predict the outcome of a session without opening it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any
from typing import Unpack

from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import options as session_options
from fpgapool.client.doors import asking
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import states


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What would happen if a session were opened now.

    :ivar state: ``PREPARING`` if it would get a slot at once, ``QUEUED`` if it
        would wait, or ``REJECTED`` if the pool would reject it.
    :ivar reasons: codes that say why it would wait or be rejected.
    :ivar message: human-readable reason why it would be rejected.
    :ivar expected_wait_s: expected wait; None if unknown or rejected. Nine of
        ten waits lie between ``expected_wait_low_s`` and
        ``expected_wait_high_s``.
    :ivar budget_pct: percentage of what is left of the project's budget that
        the session will probably take; more than 100: it is not enough; None
        if the project has no budget, or unknown.
    """

    state: str
    reasons: tuple[str, ...] = ()
    message: str = ""
    expected_wait_s: float | None = None
    expected_wait_low_s: float | None = None
    expected_wait_high_s: float | None = None
    budget_pct: float | None = None

    @property
    def fits(self) -> bool:
        """Whether it would get a slot at once."""
        return self.state == states.PREPARING


_NUMBERS = (
    "expected_wait_s",
    "expected_wait_low_s",
    "expected_wait_high_s",
    "budget_pct",
)


@functools.partial(
    session_options.accepted, options=session_options.DryRunOptions
)
def acc_dry_run(
    accelerator: str,
    size_bytes: int,
    params: Mapping[str, Any] | None = None,
    *,
    timeout_s: float | None = None,
    **options: Unpack[session_options.DryRunOptions],
) -> DryRun:
    """Report what :func:`acc_open` would get now, without opening a session.

    The result is valid only for this moment; no slot is reserved. Parameters
    not described here are those of :func:`acc_open`.

    :param params: parameters to check; those not known yet may be omitted.
    :raises errors.RequestRejected: with code ``RATE_LIMITED`` after too many
        dry runs, or ``DRY_RUN_UNSUPPORTED`` if the pool cannot do them.
    :raises: otherwise, as :func:`acc_open`.
    """
    members = checks.request(accelerator, size_bytes, **options)
    questions: list[tuple[str, dict[str, object]]] = [("dry_run", members)]
    if params:
        questions.append(("accelerator", {"name": accelerator}))
    reply, *rest = asking.ask(
        questions, timeout_s=timeout_s, **session_options.of_door(options)
    )
    found = _read(reply)
    for one in rest:
        schema = (one.get("profile") or {}).get("params_schema") or {}
        checks.params_schema(checks.params(params), {**schema, "required": []})
    return found


def _read(reply: messages.Message) -> DryRun:
    try:
        return DryRun(
            frames.require(reply, "state", str),
            tuple(map(str, frames.require(reply, "reasons", list))),
            frames.require(reply, "message", str),
            *(
                None
                if reply.get(name) is None
                else frames.require(reply, name, (int, float))
                for name in _NUMBERS
            ),
        )
    except frames.ProtocolError as exc:
        raise errors.FrontDoorUnavailable(
            f"the front door's reply is malformed: {exc}"
        ) from exc
