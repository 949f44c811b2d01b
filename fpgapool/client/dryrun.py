# SPDX-License-Identifier: Apache-2.0

"""Predicts the outcome of a session without opening it."""

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
    """The outcome of a session, if it were opened now.

    :ivar state: ``PREPARING``: it would have a slot at once; ``QUEUED``: it
        would wait; ``REJECTED``: the pool would refuse it.
    :ivar reasons: the codes that say why it would wait, or be refused.
    :ivar message: why it would be refused, for people.
    :ivar expected_wait_s: None: not known, or it would be refused.
    """

    state: str
    reasons: tuple[str, ...] = ()
    message: str = ""
    expected_wait_s: float | None = None

    @property
    def fits(self) -> bool:
        """Whether it would have a slot at once."""
        return self.state == states.PREPARING


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

    The answer is valid for this moment only, and reserves no slot.

    :param params: those that are known already, to be checked.
    :param accelerator: as all others, see :func:`acc_open`.
    :raises errors.RequestRejected: code ``RATE_LIMITED``, if there were too
        many dry runs; ``DRY_RUN_UNSUPPORTED``, if the pool makes none.
    :raises: otherwise as :func:`acc_open`.
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
            None
            if reply.get("expected_wait_s") is None
            else frames.require(reply, "expected_wait_s", (int, float)),
        )
    except frames.ProtocolError as exc:
        raise errors.FrontDoorUnavailable(
            f"the front door's answer is malformed: {exc}"
        ) from exc
