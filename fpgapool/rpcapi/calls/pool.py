# SPDX-License-Identifier: Apache-2.0

# The bodies of declared methods are empty.
# mypy: disable-error-code="empty-body"

"""Calls about the whole pool, and its services."""

from collections.abc import Iterable
from typing import Any

from fpgapool import objects
from fpgapool.rpcapi import declared


class PoolCalls(declared.Sender):
    """See :class:`fpgapool.rpcapi.conductor.ConductorAPI`."""

    @declared.sent_by("_ask")
    def pool_summary(self) -> dict[str, Any]:
        """Return a summary of the pool and all its hardware (call).

        For conductors of release 1.0.0: the answer grows with the pool.
        """

    @declared.sent_by("_ask")
    def pool_counts(self) -> dict[str, Any]:
        """Return the pool in numbers (call).

        :returns: the name of the ``strategy``; the number of ``sessions`` by
            state, including recently ended ones, and of ``queued`` ones by
            accelerator, of those with the most; ``builtins``, the
            accelerators that slots run without a file, by shape; ``hosts``,
            ``hosts_up``, ``devices`` and ``devices_healthy``; ``slots``, by
            shape and in it by state; and ``generation``, which grows when
            one of the last five changes. Of all sessions since the leader's
            start: ``moved_bytes`` of input and output, ``waits``, the number
            of those that have waited for a slot, and ``waited_s``, the sum of
            these waits.
        """

    @declared.sent_by("_ask")
    def hosts_now(self, host_uuids: Iterable[str]) -> dict[str, Any]:
        """Return what is not in the database about hosts (call).

        :param host_uuids: at most
            :data:`fpgapool.objects.bounds.MAX_HOSTS`.
        :returns: by UUID, ``nic_load``, ``queued``, ``last_report_at``,
            ``link_message``, ``isolation_message``, ``agent_version`` and
            ``unusable_slots``, the ids of their rows.
        """

    @declared.sent_by("_cast")
    def note_service(
        self, binary: str, name: str, *, host: str, version: str, lives: bool
    ) -> None:
        """Tell that a process lives, or that it stops (cast)."""

    @declared.sent_by("_ask")
    def services_now(self) -> dict[str, Any]:
        """Return the processes that have told this leader that they live.

        :returns: ``services``, whose members are the arguments of
            :meth:`note_service`, and ``last_report_at`` and ``up`` by the
            leader's clock; and the leader's own ``version``.
        """

    @declared.sent_by("_ask")
    def pool_hosts(self, after: str) -> dict[str, Any]:
        """Return a page of the hosts, with devices and slots (call).

        Intended for callers that cannot read the database.

        :param after: the UUID after which the page starts.
        :returns: ``hosts`` and, if there may be more, ``next``, the ``after``
            of the next page.
        """

    @declared.sent_by("_ask")
    def pool_now(self) -> dict[str, Any]:
        """Return the part of the summary that is not in the database (call).

        For conductors of release 1.0.0: the answer grows with the pool.

        :returns: the name of the ``strategy``; the number of ``sessions`` by
            state, including recently ended ones, and of ``queued`` ones by
            accelerator; ``unusable_slots``, the ids of their rows; and
            ``hosts``, by UUID, with ``nic_load``, ``queued``,
            ``last_report_at`` and ``link_message``.
        """

    @declared.sent_by("_ask")
    def list_accelerators(self) -> list[objects.AcceleratorProfile]:
        """Return the library's accelerators in one message (call).

        For conductors of release 1.0.0: the answer grows with the library.
        """

    @declared.sent_by("_ask")
    def accelerators_after(
        self, name: str
    ) -> list[objects.AcceleratorProfile]:
        """Return the accelerators that follow a name, a page of them (call).

        :returns: in order of their names; empty if there are no more.
        """
