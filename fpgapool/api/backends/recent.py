# SPDX-License-Identifier: Apache-2.0

"""The usage of the last days."""

from __future__ import annotations

import datetime

from fpgapool.db import api as db_api
from fpgapool.vocabulary import accounting

#: How old the sum of all projects may be: it takes long with many of them.
MAX_AGE_S = 60.0


def slot_s(database: db_api.Database, project_id: str | None) -> float:
    """Return the seconds for which slots were held.

    :param project_id: None: all projects.
    """
    today = datetime.datetime.now(datetime.UTC).date()
    found = database.sum_usage(
        project_id,
        first_day=today - datetime.timedelta(accounting.USED_DAYS - 1),
        keys=("day",),
        # The day of a conductor's clock may be tomorrow.
        limit=accounting.USED_DAYS + 1,
    )
    return sum(one.slot_s for one in found)
