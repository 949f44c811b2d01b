# SPDX-License-Identifier: Apache-2.0

"""A project's share, and what is before one of its sessions."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from fpgapool.conductor.decisions import pool as pools
from fpgapool.core import standing
from fpgapool.core.queues import share_tree


def document(
    pool: pools.Pool, strategy: str, project_id: str, session_id: str
) -> dict[str, Any]:
    """Return a project's share, as JSON.

    :param session_id: a session of the project; empty: none.
    :returns: what the leader knows of
        :data:`fpgapool.vocabulary.accounting.SHARE`. ``session`` is null if
        the project has no such session, or it does not wait.
    """
    view = pool.core.view
    found = standing.of_project(view, project_id)
    return {
        "project_id": project_id,
        "strategy": strategy,
        "chosen_by": standing.ChosenBy.of(view).value,
        "slots": view.accounts.sessions(project_id) if view.accounts else 0,
        "at_limit": view.is_held(project_id),
        "waiting": pool.sessions.queued[project_id],
        **_members(found),
        "session": _session(pool, project_id, session_id),
    }


def _members(found: standing.Standing | None) -> dict[str, Any]:
    return {
        "weight": found and found.weight,
        "weights": found and found.weights,
        "round_bytes": found and found.round_bytes,
        "score": found and found.score,
        "projects": found and found.projects,
        "projects_before": found and found.before,
        "projects_beside": found and found.beside,
        "turn_bytes": found and found.turn_bytes,
        "turn_s": found
        and (None if math.isinf(found.turn_s) else found.turn_s),
        "path": found and _path(found.path),
    }


def _path(path: list[share_tree.Part] | None) -> list[dict[str, Any]] | None:
    if path is None:
        return None
    return [
        {
            "id": part.name or None,
            "weight": part.weight,
            "weights": part.weights,
        }
        for part in path
    ]


def _session(
    pool: pools.Pool, project_id: str, session_id: str
) -> dict[str, Any] | None:
    session = pool.sessions.by_id.get(session_id)
    if session is None or session.project_id != project_id:
        return None
    found = standing.of_job(pool.core.view, session.job_id)
    return found and {"id": session_id, **dataclasses.asdict(found)}
