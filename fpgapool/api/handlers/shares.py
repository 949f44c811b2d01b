# SPDX-License-Identifier: Apache-2.0

"""Shares of projects."""

from __future__ import annotations

from fpgapool.api import call as calls
from fpgapool.api.backends import recent
from fpgapool.api.http import errors
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules


def show(call: calls.Call) -> calls.Answer:
    """Show a project's share, and what is before one of its sessions."""
    project_id = call.query.get("project_id") or call.project_id
    call.require(call.policy, project_id)
    if not rules.PROJECT_ID.fullmatch(project_id):
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"query.project_id must be {rules.PROJECT_ID_WORDS}",
        )
    session_id = call.query.get("session_id", "").lower()
    found = call.ask(
        lambda leader: leader.get_share(project_id, session_id=session_id)
    )
    if found is None:
        raise errors.ApiError(
            codes.CONDUCTOR_UNAVAILABLE,
            "only a conductor knows shares, and none answers, or it was asked"
            " too often; try again later",
        )
    if session_id and found["session"] is None:
        raise errors.ApiError(
            codes.SESSION_NOT_FOUND,
            f"no session {session_id} of project {project_id} waits",
        )
    used_s = recent.slot_s(call.backends.database, project_id)
    all_s = call.backends.recent_slot_s.get()
    return calls.Answer(
        document={
            "share": {
                **found,
                "used_slot_s": used_s,
                # The sum of all is older than that of the project.
                "used_part": used_s / max(used_s, all_s) if used_s else 0.0,
            }
        }
    )
