# SPDX-License-Identifier: Apache-2.0

"""Ask the conductor that leads, or read the database if none answers."""

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
    """A question was not answered.

    :ivar lease: as it was then.
    """

    lease: db_api.Lease | None


class Leader:
    """Where questions that change nothing are asked.

    When one was not answered, the database answers the next ones at once,
    until the lease shows that somebody leads. Safe to use from several
    threads.

    :param conductor: is asked first; waits for an answer no longer than
        whoever only reads should.
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
        """Ask something.

        :param question: gets who is to be asked.
        :returns: the answer, and whether it is only what was recorded.
        :raises: what the conductor raises, DatabaseError.
        """
        if self._may_answer():
            try:
                answer = question(self._conductor)
            except messaging.RemoteError:
                raise
            except exception.Overloaded:
                # It leads all the same.
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
        """Return which sessions have changed, for those who wait.

        :param revisions: that are known, by session.
        :returns: the sessions as they are, and those to look at again: what
            is only recorded is for each who waits to read, so that the answer
            says what it is.
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
