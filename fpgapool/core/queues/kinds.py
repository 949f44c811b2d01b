# SPDX-License-Identifier: Apache-2.0

"""The interface of an index of waiting jobs by their kinds."""

import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core.queues import queued


class Kinds(typing.Protocol):
    """Waiting jobs by kind, for a strategy that looks at the first of each.

    The strategy says which jobs are of one kind. The view keeps the index up
    to date; only the strategy that makes it reads it.
    """

    def set_library(
        self, library: abc.Mapping[str, model.Accelerator]
    ) -> None:
        """Read the rates of all accelerators."""
        raise NotImplementedError

    def add(
        self, record: queued.JobRecord, group: queued.JobGroup, now: float
    ) -> None:
        """Add a job that was queued in a group."""
        raise NotImplementedError

    def remove(self, record: queued.JobRecord) -> None:
        """Remove a job; its record still names its group."""
        raise NotImplementedError

    def rehome(self, group: queued.JobGroup, host_id: model.HostId) -> None:
        """Update whether a host is a home of a group."""
        raise NotImplementedError

    def set_homed(self, record: queued.JobRecord) -> None:
        """Note that ``homed`` of a record has changed."""
        return

    def set_done(self, record: queued.JobRecord) -> None:
        """Note that ``done_bytes`` of a record has changed."""
        return
