# SPDX-License-Identifier: Apache-2.0

"""Calls about budgets."""

from __future__ import annotations

import datetime
from typing import Any

from fpgapool.common import exception
from fpgapool.conductor.calls import base
from fpgapool.conductor.calls import checks
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.budgets import book
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.runtime import past_usage
from fpgapool.vocabulary import budget as description
from fpgapool.vocabulary import shapes

# Number of budgets in one answer.
_MOST = 100
_BUDGET = shapes.nullable(
    shapes.mapping_of(shapes.anything, len(description.DEFAULTS))
)


class BudgetCalls(base.Calls):
    """Sets budgets, and says what is left of them."""

    @base.call
    def get_budget(self, ctxt: Any, project_id: Any) -> dict[str, Any] | None:
        """Return a project's budget; None: it has none."""
        checks.check_project(project_id)
        return self._ask(lambda asked: asked.budgets.document(project_id))

    @base.call
    def budgets_after(
        self, ctxt: Any, project_id: str
    ) -> list[dict[str, Any]]:
        """Return the budgets of the next projects."""
        return self._ask(
            lambda asked: asked.budgets.documents_after(project_id, _MOST)
        )

    @base.call
    def set_budget(self, ctxt: Any, project_id: Any, budget: Any) -> None:
        """Set a project's budget; answers when the change is durable."""
        checks.check_project(project_id)
        given = limits.argument(_BUDGET, budget, "budget")
        wanted = None if given is None else _checked(given)
        with self._places.take():
            # Once this is answered, the rows of all earlier days are in the
            # database, and nobody changes them again.
            day = self._ask(
                lambda asked: asked.budgets.day_of_change(project_id, wanted)
            )
            if day is None:
                return
            today = datetime.date.fromisoformat(day)
            found = past_usage.read(
                self._database, today, project_id=project_id
            )
            past = found.get(project_id) or book.Past(today)
            new = None if wanted is None else rules.Budget.of(wanted)
            self._offer(inputs.SetBudget(project_id, new, past))
            self._ask(lambda asked: None)


def _checked(given: Any) -> dict[str, Any]:
    try:
        return description.checked(given)
    except description.Invalid as error:
        raise exception.InvalidBudget(reason=str(error)) from error
