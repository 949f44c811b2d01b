# SPDX-License-Identifier: Apache-2.0

"""Creates the orders to agents about slots."""

from __future__ import annotations

from typing import Any

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.vocabulary import names


def assign(
    hold: holds.Hold, limits: admission.PoolLimits
) -> effects.AssignSlot:
    """Order an agent to prepare the slot for its holder."""
    slot = hold.slot
    ordered = hold.ordered()
    if isinstance(hold, sessions.SessionHold):
        session = hold.session
        limit_bytes = limits.claim_limit_bytes(session.counted_bytes)
        ordered |= {
            # 0 would mean no limit.
            "claim_limit_bytes": max(
                limit_bytes - session.claim_used_bytes, 1
            ),
            "quantum_bytes": hold.quantum_bytes,
            "secret_sha256": session.secret_sha256,
            "offer": hold.offer,
            "after_generation": hold.former.generation if hold.former else 0,
            "idle_timeout_s": limits.idle_timeout_s,
            "max_hold_s": limits.max_hold_s,
            "min_progress_bytes_per_s": limits.min_progress_bytes_per_s,
        }
        if session.together is not None:
            # Its client connects only when all slots of the set are ready.
            ordered["connect_timeout_s"] += limits.prepare_timeout_s
    elif isinstance(hold, holds.Member):
        ordered |= {"idle_timeout_s": limits.idle_timeout_s}
    return effects.AssignSlot(request(slot, hold.bitstream, **ordered))


def request(
    slot: registry.SlotEntry,
    bitstream: objects.BitstreamRef | None,
    *,
    accelerator: str,
    **ordered: Any,
) -> objects.AssignRequest:
    """Return the request to prepare a slot with an accelerator."""
    bitstream_id = bitstream.bitstream_id if bitstream else None
    return objects.AssignRequest(
        host_uuid=slot.host.uuid,
        device=slot.device.name,
        slot=slot.number,
        accelerator=accelerator,
        bitstream=names.bitstream_of(accelerator, bitstream_id),
        bitstream_ref=bitstream,
        **ordered,
    )


def release(hold: holds.Hold, reason: str) -> effects.ReleaseSlot:
    """Order an agent to take the slot from its holder."""
    return release_slot(hold.slot, hold.public_id, hold.generation, reason)


def release_slot(
    slot: registry.SlotEntry, session_id: str, generation: int, reason: str
) -> effects.ReleaseSlot:
    """Order an agent to end one generation of a slot."""
    return effects.ReleaseSlot(
        host_uuid=slot.host.uuid,
        device=slot.device.name,
        slot=slot.number,
        session_id=session_id,
        generation=generation,
        reason=reason,
    )


def reissue_secret(hold: sessions.SessionHold) -> effects.ReissueSecret:
    """Order an agent to create a new secret for an unconnected client."""
    return effects.ReissueSecret(
        host_uuid=hold.slot.host.uuid,
        device=hold.slot.device.name,
        slot=hold.slot.number,
        generation=hold.generation,
    )
