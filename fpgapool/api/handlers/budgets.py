# SPDX-License-Identifier: Apache-2.0

"""Budgets of projects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.http import errors
from fpgapool.api.http import rights
from fpgapool.vocabulary import budget
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

_SETTABLE = tuple(budget.DEFAULTS)


def index(call: calls.Call) -> calls.Answer:
    """List the budgets of projects."""
    project_id = paging.project_id(call, rights.BUDGETS_LIST_ALL)
    limit = paging.limit(call)
    after: str = call.query.get("marker", "")
    found: list[Mapping[str, Any]] = []
    if project_id is not None:
        own = _known(call, project_id)
        found = [] if own is None or after else [own]
    else:
        while len(found) < limit:
            page = call.backends.reader.budgets_after(after)
            if not page:
                break
            found += page
            after = page[-1]["project_id"]
    return calls.Answer(
        document=paging.document(
            call,
            "budgets",
            [_document(call, one) for one in found[:limit]],
            key="project_id",
        )
    )


def show(call: calls.Call) -> calls.Answer:
    """Show a project's budget, and what is left of it."""
    project_id = _project_id(call)
    return _shown(call, project_id)


def update(call: calls.Call) -> calls.Answer:
    """Set the budget of a project; omitted members get their defaults."""
    project_id = call.path["project_id"]
    call.require(call.policy, project_id)
    wanted = call.body["budget"]
    try:
        checked = budget.checked(wanted)
    except budget.Invalid as error:
        raise errors.ApiError(codes.INVALID_BUDGET, str(error)) from error
    _set(call, project_id, checked)
    return _shown(call, project_id)


def delete(call: calls.Call) -> calls.Answer:
    """Delete the budget of a project, so that the default applies."""
    project_id = call.path["project_id"]
    call.require(call.policy, project_id)
    known = _known(call, project_id)
    if known is None or known["source"] != "project":
        raise _missing(project_id)
    _set(call, project_id, None)
    return calls.NO_CONTENT


def _project_id(call: calls.Call) -> str:
    project_id = call.path["project_id"]
    if not call.may(call.policy, project_id):
        raise errors.missing(codes.PROJECT_NOT_FOUND, "project", project_id)
    return project_id


def _known(call: calls.Call, project_id: str) -> Mapping[str, Any] | None:
    if not rules.PROJECT_ID.fullmatch(project_id):
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"project_id must be {rules.PROJECT_ID_WORDS}",
        )
    return call.backends.reader.get_budget(project_id)


def _missing(project_id: str) -> errors.ApiError:
    return errors.missing(
        codes.BUDGET_NOT_FOUND, "budget of project", project_id
    )


def _set(
    call: calls.Call, project_id: str, wanted: Mapping[str, Any] | None
) -> None:
    before = _known(call, project_id)
    if before is not None and before["source"] == "project":
        call.audit.before = {name: _value(before, name) for name in _SETTABLE}
    call.backends.conductor.set_budget(project_id, wanted)


def _value(found: Mapping[str, Any], name: str) -> Any:
    value = found[name]
    if name in budget.RESOURCES and value is not None:
        return value["limit"]
    return value


def _shown(call: calls.Call, project_id: str) -> calls.Answer:
    found = _known(call, project_id)
    if found is None:
        raise _missing(project_id)
    return calls.Answer(document={"budget": _document(call, found)})


def _document(call: calls.Call, found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{one.name: found[one.name] for one in budget.FIELDS.shown},
        "links": calls.self_link(call.url("budgets", found["project_id"])),
    }
