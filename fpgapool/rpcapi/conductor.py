#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Client side of the conductor's RPC interface."""

import contextlib
import math
import threading
import time
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.common import rpc

TOPIC = "fpgapool-conductor"

# Grows with every change; the conductor's endpoint has the same version.
VERSION = "1.3"

# Names of leaders come round again, so that the broker does not keep a queue
# for each one that ever was.
_LEADER_NAMES = 16

# How long the word of a leader counts. Longer than the broker needs to find
# out that a consumer is frozen, which is twice the heartbeat.
LEADER_MEMORY_S = 60.0

# Who was heard that lately is not silent: what it did not answer was sent to
# the leader before it.
_JUST_HEARD_S = 1.5


def server_name(leader_epoch: int) -> str:
    """Return the name by which the leader of an epoch can be addressed.

    The topic alone reaches any process that listens to it: also a former
    leader that is frozen and answers nothing.

    :param leader_epoch: its epoch.
    """
    return f"leader-{leader_epoch % _LEADER_NAMES}"


def is_outdated(told_epoch: int, leader_epoch: int) -> bool:
    """Whether a report was meant for an earlier leader of the same name.

    :param told_epoch: the highest epoch its sender had seen, 0 for none.
    :param leader_epoch: of the leader that got it.
    """
    return 0 < told_epoch <= leader_epoch - _LEADER_NAMES


class ConductorAPI:
    """Casts and calls to the conductor that leads.

    They go to the leader that was heard last, or, if it is not known or does
    not answer, to whichever conductor listens to the topic.

    Every method raises oslo_messaging.MessagingException if the broker
    cannot be reached, or, where it waits for an answer, if none comes in
    time (MessagingTimeout). A cast that returned may still be lost.

    :param call_timeout_s: how long a call waits for its answer.
    :param watch: see :class:`fpgapool.common.rpc.Client`.
    """

    def __init__(
        self,
        *,
        call_timeout_s: float = rpc.CALL_TIMEOUT_S,
        watch: rpc.Watch | None = None,
    ) -> None:
        self._client = rpc.Client(
            messaging.Target(topic=TOPIC, version=VERSION),
            timeout_s=call_timeout_s,
            watch=watch,
        )
        self._lock = threading.Lock()
        self._leader_epoch = 0
        self._leader_heard_s = -math.inf

    def note_leader(self, leader_epoch: int) -> None:
        """Address the leader that has just been heard.

        :param leader_epoch: its epoch; one lower than before is ignored.
        """
        with self._lock:
            if leader_epoch >= self._leader_epoch:
                self._leader_epoch = leader_epoch
                self._leader_heard_s = time.monotonic()

    def forget_leader(self) -> None:
        """Address any conductor until a leader is heard again.

        One that was heard just now is kept.
        """
        with self._lock:
            if time.monotonic() - self._leader_heard_s > _JUST_HEARD_S:
                self._leader_heard_s = -math.inf

    def _leader(self) -> str | None:
        with self._lock:
            silent_s = time.monotonic() - self._leader_heard_s
            if silent_s < LEADER_MEMORY_S:
                return server_name(self._leader_epoch)
        return None

    def together(self) -> contextlib.AbstractContextManager[None]:
        """See :meth:`fpgapool.common.rpc.Client.together`."""
        return self._client.together()

    def report(self, report: objects.AgentReport) -> None:
        """Tell the whole state of a host (cast)."""
        self._cast("report", report=report.to_primitive())

    def prepared(self, prepared: objects.Prepared) -> None:
        """Tell that a slot is ready for its session's client (cast)."""
        self._cast("prepared", prepared=prepared.to_primitive())

    def open_session(self, request: objects.OpenRequest) -> None:
        """Ask for a session (cast); a repeat is the same request."""
        self._cast("open_session", request=request.to_primitive())

    def reopen_session(
        self,
        project_id: str,
        *,
        session_id: str,
        generation: int,
        host_uuid: str,
    ) -> None:
        """Ask for another slot for a session that lost its slot (cast).

        A repeat is the same request.

        :param generation: of the assignment that is lost; if the session
            has a later one, the answer is how that stands.
        :param host_uuid: host of the front door that waits for the answer;
            empty if nobody waits, but asks.
        """
        self._cast(
            "reopen_session",
            project_id=project_id,
            session_id=session_id,
            generation=generation,
            host_uuid=host_uuid,
        )

    def cancel_session(
        self,
        project_id: str,
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        reason: str,
    ) -> None:
        """Give a session up (cast), named by its own or its request's id.

        :param reason: a code of :mod:`fpgapool.core.codes`.
        :raises: ValueError if neither of the two ids is given.
        """
        if session_id is None and request_id is None:
            raise ValueError("give session_id or request_id")
        self._cast(
            "cancel_session",
            project_id=project_id,
            session_id=session_id,
            request_id=request_id,
            reason=reason,
        )

    def renew_secret(self, session_id: str) -> None:
        """Ask for a fresh secret of a session that is READY (cast)."""
        self._cast("renew_secret", session_id=session_id)

    def get_sessions(
        self, session_ids: Iterable[str]
    ) -> list[objects.SessionView]:
        """Return the sessions that exist, in any order (call)."""
        views = self._call("get_sessions", session_ids=list(session_ids))
        return [objects.SessionView.from_primitive(view) for view in views]

    def changed_sessions(
        self, revisions: Mapping[str, int]
    ) -> tuple[list[objects.SessionView], list[str]]:
        """Return which sessions are not as they are known here (call).

        Most are: so many that wait may be asked for at once.

        :param revisions: the revision that is known of each, by its id.
        :returns: the sessions that have another one, and the ids of those
            that do not exist.
        """
        answer = self._call("changed_sessions", revisions=dict(revisions))
        views = map(objects.SessionView.from_primitive, answer["changed"])
        return list(views), answer["unknown"]

    def find_session(
        self, project_id: str, request_id: str
    ) -> objects.SessionView | None:
        """Return the session that a request led to, if any (call)."""
        view = self._call(
            "find_session", project_id=project_id, request_id=request_id
        )
        return view and objects.SessionView.from_primitive(view)

    def submit_session(
        self, request: objects.OpenRequest
    ) -> objects.SessionView:
        """Ask for a session and return what became of it (call).

        A repeat is the same request.

        :returns: the session, which is recorded; or, REJECTED and without
            an id, why there is none.
        """
        view = self._call("submit_session", request=request.to_primitive())
        return objects.SessionView.from_primitive(view)

    def list_accelerators(self) -> list[objects.AcceleratorProfile]:
        """Return the library's accelerators (call)."""
        return [
            objects.AcceleratorProfile.from_primitive(profile)
            for profile in self._call("list_accelerators")
        ]

    def pool_summary(self) -> dict[str, Any]:
        """Return figures about the pool (call)."""
        return self._call("pool_summary")

    def _cast(self, method: str, **kwargs: Any) -> None:
        self._client.cast(method, server=self._leader(), **kwargs)

    def _call(self, method: str, **kwargs: Any) -> Any:
        try:
            return self._client.call(method, server=self._leader(), **kwargs)
        except messaging.MessagingTimeout:
            self.forget_leader()
            raise
