# SPDX-License-Identifier: Apache-2.0

"""The part of the database that sums usage, in memory."""

import collections
import dataclasses
import datetime
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.db import api as db_api

_SUMMED = ("slot_s", "input_bytes", "output_bytes")


@dataclasses.dataclass
class Usage:
    """Rows of usage."""

    rows: Iterable[db_api.UsageRecord]

    def sum_usage(
        self,
        project_id: str | None = None,
        *,
        first_day: datetime.date,
        last_day: datetime.date,
        keys: Sequence[str],
        after: Sequence[str] | None,
        limit: int,
    ) -> list[db_api.UsageSum]:
        assert keys == ("project_id",)
        found = collections.defaultdict[str, list[db_api.UsageRecord]](list)
        for row in self.rows:
            if first_day <= row.day <= last_day:
                found[row.project_id].append(row)
        return [
            db_api.UsageSum(
                project_id=one,
                energy_j=sum(row.energy_j or 0.0 for row in found[one]),
                **{
                    name: sum(getattr(row, name) for row in found[one])
                    for name in _SUMMED
                },
            )
            for one in sorted(found)
            if project_id in (None, one) and (after is None or (one,) > after)
        ][:limit]
