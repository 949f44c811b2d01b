# SPDX-License-Identifier: Apache-2.0

"""Connects workers to the next stages of chains.

Workers can connect to nothing. A worker names a session to its agent, which
connects to the worker of that session only if it belongs to the project that
the agent itself has given the slot to. Where the other worker is, this host's
table or the conductor says, and never the worker or its client.
"""

from __future__ import annotations

import dataclasses
import functools
import socket
from collections.abc import Callable

from fpgapool.agent import sender
from fpgapool.agent.door import slots
from fpgapool.common.channels import channel
from fpgapool.common.monitoring import ratelimit
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

#: Time limit for a connection to another host.
DIAL_S = 5.0

Answer = Callable[[socket.socket | None], None]


@dataclasses.dataclass(eq=False)
class NextStages:
    """Makes connections; used only in the loop's thread.

    :param host_uuid: UUID of this host.
    :param slots: the sessions on this host.
    :param caller: makes the blocking calls for other hosts.
    """

    host_uuid: str
    slots: slots.HostSlots
    conductor: conductor_api.ConductorAPI
    caller: sender.Caller

    def __post_init__(self) -> None:
        self._log = ratelimit.RateLimitedLog(__name__)

    def connect(
        self, project_id: str, session_id: str, generation: int, answer: Answer
    ) -> None:
        """Connect to a session's worker.

        :param answer: called with the blocking connection, or with None if
            the project has no such session, or its worker is not reached.
        """
        try:
            answer(self.slots.connect(project_id, session_id, generation))
        except rules.RequestError as error:
            if error.code != codes.SESSION_NOT_FOUND:
                answer(None)
                return
            # It may be on another host.
            self.caller.submit(
                functools.partial(
                    self._dial, project_id, session_id, generation
                ),
                answer,
                functools.partial(self._failed, answer),
                limit_s=2 * DIAL_S,
                lane=project_id,
            )

    def _failed(self, answer: Answer, error: Exception) -> None:
        self._log.info("No connection to another stage: %s", error)
        answer(None)

    def _dial(
        self, project_id: str, session_id: str, generation: int
    ) -> socket.socket | None:
        found = self.conductor.stage_endpoints(
            self.host_uuid, project_id, session_id, generation
        )
        deadline_s = channel.deadline_after(DIAL_S)
        for endpoint in found:
            try:
                sock = channel.connect_tcp(
                    endpoint["address"], endpoint["port"], deadline_s
                )
            except OSError as error:
                self._log.info("No connection to another stage: %s", error)
            else:
                # The worker gets the same open file description.
                sock.setblocking(True)
                return sock
        return None
