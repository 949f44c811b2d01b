# SPDX-License-Identifier: Apache-2.0

"""Calls about reservations by calendar."""

from __future__ import annotations

from typing import Any

from fpgapool.common import exception
from fpgapool.conductor.calls import base
from fpgapool.conductor.calls import checks
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.requests import admission
from fpgapool.vocabulary import reservation
from fpgapool.vocabulary import shapes

_NAMES = shapes.Members(
    {
        "reservation_id": shapes.matching("[0-9a-f-]{36}", "a UUID"),
        "user_id": shapes.text(),
        "exempt": shapes.flag,
    }
)
# The members are checked where their errors have a code of their own.
_WANTED = shapes.nullable(
    shapes.mapping_of(shapes.anything, len(reservation.MEMBERS))
)


class ReservationCalls(base.Calls):
    """Makes, changes and deletes reservations."""

    @base.call
    def set_reservation(
        self,
        ctxt: Any,
        reservation_id: Any,
        wanted: Any,
        project_id: Any = "",
        user_id: Any = "",
        exempt: Any = False,
    ) -> None:
        """Change a reservation; answers when the change is durable."""
        names = limits.argument(
            _NAMES,
            {
                "reservation_id": reservation_id,
                "user_id": user_id,
                "exempt": exempt,
            },
            "",
        )
        if project_id != "":
            checks.check_project(project_id)
        item = inputs.SetReservation(
            wanted=limits.argument(_WANTED, wanted, "wanted"),
            project_id=project_id,
            **names,
        )
        try:
            self._change(item)
        except admission.Rejected as error:
            raise exception.ReservationRefused(
                str(error), code=error.code
            ) from error
