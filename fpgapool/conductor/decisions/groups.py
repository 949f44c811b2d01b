# SPDX-License-Identifier: Apache-2.0

"""Requests of owners and clients of groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.conductor.decisions import admission
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import group_book
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import opening
from fpgapool.conductor.decisions import pool as pools
from fpgapool.db import api as db_api
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)


class Groups:
    """Creates, changes and deletes groups; attaches and revokes clients."""

    def __init__(self, pool: pools.Pool) -> None:
        self._pool = pool

    @property
    def handled(self) -> Mapping[type, pools.Handler]:
        """The inputs that are handled here."""
        return {inputs.ChangeGroup: self._change}

    def restore(self) -> None:
        """Tell the core of the groups in the database."""
        for group in list(self._pool.groups.groups.values()):
            self._created(group)
            if group.state == states.GROUP_DRAINING:
                self._deleted(group)

    def _change(self, item: inputs.ChangeGroup) -> None:
        pool = self._pool
        if pool.database_failing:
            refused = effects.EarlyAnswer(
                item.future, opening.not_recordable()
            )
            pool.outbox.send(refused)
            return
        refusal = None
        try:
            self._keep(pool.groups.planned(item.change, self._around()))
        except admission.Rejected as error:
            LOG.info("%s refused: %s", type(item.change).__name__, error.code)
            refusal = error
        # A refusal waits for the commit, too: the row that caused it may not
        # be recorded yet, and the client will look for it.
        pool.outbox.send(effects.Answer(item.future, refusal))

    def _around(self) -> group_book.Surroundings:
        pool = self._pool
        return group_book.Surroundings(
            now=pool.now,
            quota_of=pool.quotas.of,
            find_accelerator=self._accelerator,
            is_stateless=lambda key: (
                (profile := pool.profiles.get(key)) is not None
                and profile.stateless
            ),
        )

    def _accelerator(self, name: str, project_id: str) -> str:
        pool = self._pool
        known, key = pool.catalogue.resolve(name, project_id)
        admission.check_accelerator(key, pool.registry, known)
        return key

    def _keep(self, rows: Iterable[group_book.Row]) -> None:
        """Tell the core of a change, and keep it.

        :raises Rejected: if the core refuses it; nothing has changed then.
        """
        for row in rows:
            if isinstance(row, db_api.GroupClientRecord):
                self._write(row)
                self._client_changed(row)
                continue
            known = self._pool.groups.groups.get(row.group_id)
            if known is None:
                self._created(row)
            elif row.state != states.GROUP_DRAINING:
                self._changed(known, row)
            self._write(row)
            if row.state == states.GROUP_DRAINING:
                self._deleted(row)

    def _write(self, row: group_book.Row) -> None:
        self._pool.groups.put([row])
        self._pool.outbox.write(row)

    # -- the core and the desks --------------------------------------------
    #
    # The core does not give slots to groups yet. A group has no members, so
    # it stays CREATING, and is gone as soon as it is deleted.

    def _created(self, group: db_api.GroupRecord) -> None:
        """Tell the core of a group, of a request or of a former leader.

        :raises Rejected: if its goal cannot be reached.
        """

    def _changed(
        self, old: db_api.GroupRecord, new: db_api.GroupRecord
    ) -> None:
        """Tell the core of other sizes, or of another goal.

        :raises Rejected: if the goal cannot be reached.
        """

    def _deleted(self, group: db_api.GroupRecord) -> None:
        """Tell the core that a group gives its members back."""
        self._drained(group)

    def _drained(self, group: db_api.GroupRecord) -> None:
        """Forget a group that has no members any more."""
        gone = dataclasses.replace(group, state=states.GROUP_DELETED)
        self._write(gone)

    def _client_changed(self, client: db_api.GroupClientRecord) -> None:
        """Tell the desks of a client that is attached or revoked."""
