# SPDX-License-Identifier: Apache-2.0

"""Queries to the leading conductor for data that is not in the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Iterable
from typing import NamedTuple
from typing import TypeVar

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")


class _Silence(NamedTuple):
    """A query that the leader did not answer, and the lease at that time."""

    lease: db_api.Lease | None


class Leader:
    """Sends read-only queries to the leader.

    If the conductor does not answer a query, no further ones are sent until
    the lease shows that a conductor leads again. Thread-safe.

    :param conductor: the conductor's client, with a short timeout.
    """

    def __init__(
        self,
        conductor: conductor_rpcapi.ConductorAPI,
        database: db_api.Database,
    ) -> None:
        self._conductor = conductor
        self._database = database
        self._lock = threading.Lock()
        self._silence: _Silence | None = None

    def ask(
        self, question: Callable[[conductor_rpcapi.ConductorAPI], _T]
    ) -> tuple[_T | None, bool]:
        """Send a query.

        :returns: the answer, and whether there is one.
        :raises: the conductor's errors, or DatabaseError.
        """
        if not self._may_answer():
            return None, False
        try:
            answer = question(self._conductor)
        except messaging.RemoteError:
            raise
        except exception.Overloaded:
            # The conductor still leads, so later queries are sent.
            return None, False
        except (
            messaging.MessagingException,
            exception.NotLeader,
        ) as error:
            LOG.warning(
                "The conductor did not answer, so responses are from the"
                " database until a conductor renews the lease: %s",
                error,
            )
            self._record_silence()
            return None, False
        with self._lock:
            self._silence = None
        return answer, True

    def revisions(self, session_ids: Iterable[str]) -> dict[str, int]:
        """Return the current revisions of sessions, as clients see them.

        Sessions that do not exist are omitted.
        """
        found = self._database.session_revisions(session_ids)
        with self._lock:
            silence = self._silence
        if silence is None or self._new_lease(silence):
            return {name: revision for name, (_, revision) in found.items()}
        return {name: without_secret(*one) for name, one in found.items()}

    def _may_answer(self) -> bool:
        with self._lock:
            silence = self._silence
        if silence is None:
            return True
        lease = self._new_lease(silence)
        if lease is None:
            return False
        # Send only one query to find out whether the conductor answers again.
        with self._lock:
            is_first = self._silence is silence
            if is_first:
                self._silence = _Silence(lease)
        return is_first

    def _new_lease(self, silence: _Silence) -> db_api.Lease | None:
        """Return the lease if it shows that a conductor leads again."""
        lease = self._database.read_lease()
        if lease is None or not lease.holder or lease == silence.lease:
            return None
        return lease

    def _record_silence(self) -> None:
        silence = _Silence(self._database.read_lease())
        with self._lock:
            self._silence = silence


def without_secret(state: str, revision: int) -> int:
    """Return the revision of a session that is shown without its secret.

    For a READY session, this is an older revision: a client that waits for the
    next revision then gets the secret once a conductor leads again.
    """
    return max(revision - (state == states.READY), 0)
