# SPDX-License-Identifier: Apache-2.0

"""Makes the orders to agents about slots."""

from __future__ import annotations

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names


def assign(hold: holds.Hold, limits: admission.Limits) -> effects.AssignSlot:
    """Order an agent to prepare the slot for its holder."""
    slot = hold.slot
    ordered = hold.ordered()
    if isinstance(hold, sessions.Hold):
        session = hold.session
        limit_bytes = limits.claim_limit_bytes(session.claimed_bytes)
        ordered |= {
            # 0 would be no limit.
            "claim_limit_bytes": max(
                limit_bytes - session.claim_used_bytes, 1
            ),
            "quantum_bytes": hold.quantum_bytes,
            "secret_sha256": session.secret_sha256,
            "offer": hold.offer,
            "idle_timeout_s": limits.idle_timeout_s,
            "max_hold_s": limits.max_hold_s,
            "min_progress_bytes_per_s": limits.min_progress_bytes_per_s,
        }
    elif isinstance(hold, holds.Member):
        ordered |= {"idle_timeout_s": limits.idle_timeout_s}
    return effects.AssignSlot(
        objects.AssignRequest(
            host_uuid=slot.host.uuid,
            device=slot.device.name,
            slot=slot.number,
            bitstream=names.bitstream_of(hold.accelerator, hold.bitstream_id),
            bitstream_ref=hold.bitstream,
            **ordered,
        )
    )


def release(hold: holds.Hold, reason: str) -> effects.ReleaseSlot:
    """Order an agent to take the slot from its holder."""
    return effects.ReleaseSlot(
        host_uuid=hold.slot.host.uuid,
        device=hold.slot.device.name,
        slot=hold.slot.number,
        session_id=hold.public_id,
        generation=hold.generation,
        reason=reason,
    )


def release_stray(
    slot: registry.SlotEntry, report: objects.SlotReport
) -> effects.ReleaseSlot:
    """Order an agent to end a session that should not have the slot."""
    return effects.ReleaseSlot(
        host_uuid=slot.host.uuid,
        device=slot.device.name,
        slot=slot.number,
        session_id=report.session_id or "",
        generation=report.generation or 0,
        reason=codes.SUPERSEDED,
    )


def reissue_secret(hold: sessions.Hold) -> effects.ReissueSecret:
    """Order a new secret for a client that is not connected."""
    return effects.ReissueSecret(
        host_uuid=hold.slot.host.uuid,
        device=hold.slot.device.name,
        slot=hold.slot.number,
        generation=hold.generation,
    )
