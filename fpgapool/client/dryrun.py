# SPDX-License-Identifier: Apache-2.0

"""Asking what would become of a session, without opening it."""

from __future__ import annotations

import collections.abc
import dataclasses
import threading
import typing

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client.doors import apidoor
from fpgapool.client.doors import asking
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import states


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What would become of a session, if it were opened now.

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


def acc_dry_run(
    accelerator: str,
    size_bytes: int,
    params: collections.abc.Mapping[str, typing.Any] | None = None,
    *,
    timeout_s: float | None = None,
    front_door: str | apidoor.PoolApi | None = None,
    wait_timeout_s: float | None = None,
    priority: int = 0,
    deadline_s: float | None = None,
    deadline_action: str | None = None,
    application: str | None = None,
    cancel: threading.Event | cancelling.CancelToken | None = None,
    require_tls: bool | None = None,
) -> DryRun:
    """Ask what :func:`acc_open` would find, and change nothing.

    The answer holds for this moment only, and keeps no slot.

    :param params: those that are known already, to be checked.
    :param accelerator: as all others, see :func:`acc_open`.
    :raises errors.RequestRejected: code ``RATE_LIMITED``, if there were too
        many dry runs; ``DRY_RUN_UNSUPPORTED``, if the pool makes none.
    :raises: otherwise as :func:`acc_open`.
    """
    members = checks.request(
        accelerator,
        size_bytes,
        wait_timeout_s=wait_timeout_s,
        priority=priority,
        deadline_s=deadline_s,
        deadline_action=deadline_action,
        application=application,
    )
    questions: list[tuple[str, dict[str, object]]] = [("dry_run", members)]
    if params:
        questions.append(("accelerator", {"name": accelerator}))
    reply, *rest = asking.ask(
        questions,
        front_door=front_door,
        timeout_s=timeout_s,
        cancel=cancel,
        require_tls=require_tls,
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
