# SPDX-License-Identifier: Apache-2.0

"""Signs of life, which services without reports send to the leader."""

from __future__ import annotations

import os
import socket
import threading

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool import version
from fpgapool.rpcapi import conductor as conductor_rpcapi

LOG = logging.getLogger(__name__)

INTERVAL_S = 10.0
# How long a process that stops waits for the broker.
_STOP_S = 2.0


class Pulse:
    """Tells the leader that this process lives, from its start to its stop.

    :param name: name of a conductor, whose last sign stays; by default the
        host and the number of the process, which is forgotten when it stops.
    """

    def __init__(
        self,
        conductor: conductor_rpcapi.ConductorAPI,
        binary: str,
        name: str | None = None,
    ) -> None:
        self._conductor = conductor
        self._binary = binary
        self._name = name
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="pulse", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._tell(lives=True)
            self._stopping.wait(INTERVAL_S)
        if self._name is None:
            self._tell(lives=False)

    def _tell(self, *, lives: bool) -> None:
        host = socket.gethostname()
        try:
            self._conductor.note_service(
                self._binary,
                # A web server may have forked since this was created.
                self._name or f"{host}:{os.getpid()}",
                host=host,
                version=version.version_string(),
                lives=lives,
            )
        except messaging.RPCVersionCapError:
            # Conductors of the pinned release do not know signs of life.
            return
        except messaging.MessagingException as error:
            if not self._failing:
                LOG.warning("Cannot tell the leader that it lives: %s", error)
            self._failing = True
        else:
            self._failing = False
