# SPDX-License-Identifier: Apache-2.0

"""Ask the leading conductor, or read the database if it does not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import NamedTuple
from typing import TypeVar

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool import objects
from fpgapool.api import recorded
from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.rpcapi import conductor as conductor_rpcapi

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Both answer the same questions.
Source = conductor_rpcapi.ConductorAPI | recorded.Recorded


class _Silence(NamedTuple):
    """The leader did not answer.

    :ivar lease: the lease at that time.
    """

    lease: db_api.Lease | None


class Leader:
    """Answers questions that change nothing.

    If the conductor does not answer one question, the database answers the
    next ones at once, until the lease shows that a conductor leads.
    Thread-safe.

    :param conductor: is asked first; with a short timeout.
    :param stand_in: is asked if that does not answer.
    :param database: holds the lease.
    """

    def __init__(
        self,
        conductor: conductor_rpcapi.ConductorAPI,
        stand_in: recorded.Recorded,
        database: db_api.Database,
    ) -> None:
        self._conductor = conductor
        self._stand_in = stand_in
        self._database = database
        self._lock = threading.Lock()
        self._silence: _Silence | None = None

    def ask(self, question: Callable[[Source], _T]) -> tuple[_T, bool]:
        """Ask a question.

        :param question: gets the source to ask.
        :returns: the answer, and whether it is only the recorded one.
        :raises: the conductor's errors, DatabaseError.
        """
        if self._may_answer():
            try:
                answer = question(self._conductor)
            except messaging.RemoteError:
                raise
            except exception.Overloaded:
                # It still leads.
                return question(self._stand_in), True
            except (
                messaging.MessagingException,
                exception.NotLeader,
            ) as error:
                LOG.warning("No conductor answers: %s", error)
                self._note_silence()
            else:
                with self._lock:
                    self._silence = None
                return answer, False
        return question(self._stand_in), True

    def changed_sessions(
        self, revisions: Mapping[str, int]
    ) -> tuple[list[objects.SessionView], list[str]]:
        """Return the changed sessions, for waiting requests.

        :param revisions: the known ones, by session.
        :returns: the changed sessions, and those to read again: each waiting
            request reads recorded sessions itself, so that its answer names
            the source.
        """
        (views, unknown), is_recorded = self.ask(
            lambda source: source.changed_sessions(revisions)
        )
        if is_recorded:
            return [], [*unknown, *(view.session_id for view in views)]
        return views, unknown

    def _may_answer(self) -> bool:
        with self._lock:
            silence = self._silence
        if silence is None:
            return True
        lease = self._database.read_lease()
        if lease is None or not lease.holder or lease == silence.lease:
            return False
        # One question is enough to find out.
        with self._lock:
            is_first = self._silence is silence
            if is_first:
                self._silence = _Silence(lease)
        return is_first

    def _note_silence(self) -> None:
        silence = _Silence(self._database.read_lease())
        with self._lock:
            self._silence = silence
