# SPDX-License-Identifier: Apache-2.0

"""Which accelerators can form a chain, and with which claims."""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import options as session_options
from fpgapool.client.doors import asking
from fpgapool.client.sessions import opening
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names
from fpgapool.vocabulary import rules

# Options that need all data in this process, or one accelerator, or that the
# chain sets itself.
_REFUSED = ("arguments", "checksum", "fallback", "set_id", "set_size")


class Stage(NamedTuple):
    """One stage.

    :ivar number: its number, from 1.
    :ivar ratio: bytes of output for each byte of input; None: unknown.
    :ivar core_name: the pool's name for its software core, if known.
    :ivar is_own: whether it is a bitstream that belongs to a project.
    """

    number: int
    accelerator: str
    params: Mapping[str, Any]
    ratio: float | None = None
    core_name: str | None = None
    is_own: bool = False


def stages(
    accelerators: Sequence[object], options: session_options.Options
) -> list[Stage]:
    """Check the arguments of a chain; asks nobody.

    :raises errors.InvalidRequest: ``CHAIN_LENGTH``, ``CHAIN_PARAMS``,
        ``CHAIN_OPTION``, or the code of another invalid argument.
    """
    if not rules.MIN_STAGES <= len(accelerators) <= rules.MAX_STAGES:
        raise errors.InvalidRequest(
            codes.CHAIN_LENGTH,
            f"a chain has {rules.MIN_STAGES} to {rules.MAX_STAGES} stages, "
            f"and not {len(accelerators)}",
        )
    for name in _REFUSED:
        if options.get(name):
            raise errors.InvalidRequest(
                codes.CHAIN_OPTION, f"{name} is not possible for chains"
            )
    if options.get("meanwhile") not in (None, opening.CPU):
        raise errors.invalid(f"meanwhile must be None or {opening.CPU!r}")
    wanted = [checks.name(one, "accelerator") for one in accelerators]
    given = options.get("params") or {}
    if not isinstance(given, Mapping):
        raise errors.InvalidRequest(
            codes.CHAIN_PARAMS,
            "params must be a mapping from a stage's accelerator, or its"
            " number as text, to its parameters",
        )
    found = []
    for number, accelerator in enumerate(wanted, 1):
        own = given.get(str(number), given.get(accelerator))
        try:
            found.append(Stage(number, accelerator, checks.params(own)))
        except errors.FpgapoolError as exc:
            raise exc.of_stage(number, accelerator) from None
    known = [*wanted, *(str(one.number) for one in found)]
    for name in given:
        if name not in known:
            raise errors.InvalidRequest(
                codes.CHAIN_PARAMS,
                f"there are parameters for {name!r}, which is no stage of "
                f"{' + '.join(wanted)}{names.hint(str(name), known)}",
            )
    return found


def fitting(
    found: Iterable[Stage],
    options: session_options.Options,
    timeout_s: float | None,
) -> list[Stage]:
    """Check the stages against the pool's accelerators.

    :returns: the stages, with their ratios.
    :raises errors.InvalidRequest: ``CHAIN_NO_OUTPUT``, or ``INVALID_PARAMS``
        of a stage.
    :raises errors.RequestRejected: ``UNKNOWN_ACCELERATOR`` of a stage.
    """
    checked = []
    profiles: dict[str, Mapping[str, Any]] = {}
    waiting = list(found)
    for one in waiting:
        try:
            if one.accelerator not in profiles:
                (reply,) = asking.ask(
                    [("accelerator", {"name": one.accelerator})],
                    timeout_s=timeout_s,
                    **session_options.of_door(options),
                )
                profiles[one.accelerator] = reply.get("profile") or {}
            profile = profiles[one.accelerator]
            if options.get("verify", True):
                checks.params_schema(
                    dict(one.params), profile.get("params_schema") or {}
                )
        except (errors.InvalidRequest, errors.RequestRejected) as exc:
            raise exc.of_stage(one.number, one.accelerator) from None
        ratio = profile.get("return_ratio")
        if not isinstance(ratio, int | float):
            ratio = None
        if ratio == 0 and one.number < len(waiting):
            raise errors.InvalidRequest(
                codes.CHAIN_NO_OUTPUT,
                f"{one.accelerator!r} returns no data, so it can only be the"
                " last stage",
            ).of_stage(one.number, one.accelerator)
        checked.append(
            one._replace(
                ratio=ratio,
                core_name=profile.get("core"),
                is_own=names.owner_of(str(profile.get("name"))) is not None,
            )
        )
    return checked


def claims(found: Iterable[Stage], size_bytes: int) -> list[int]:
    """Return how many bytes each stage's session claims.

    A stage whose ratio is unknown passes its own claim on.
    """
    claim_bytes = max(size_bytes, 1)
    claimed = []
    for one in found:
        claimed.append(claim_bytes)
        ratio = 1 if one.ratio is None else one.ratio
        claim_bytes = max(1, math.ceil(claim_bytes * ratio))
        claim_bytes = min(claim_bytes, rules.MAX_SIZE_BYTES)
    return claimed
