# SPDX-License-Identifier: Apache-2.0

"""The interface of an index of waiting jobs by their kinds."""

from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core.queues import queued


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Kinds:
    """Waiting jobs by kind, for a strategy that estimates rates.

    Jobs that differ only in size and arrival are of one kind. The view keeps
    the index up to date; only the strategy that makes it reads it.
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
