# SPDX-License-Identifier: Apache-2.0

"""Signs of life of conductors and of the API's processes.

They are no part of the pool's state: they are written without the epoch, and
decide nothing. Agents have no database; their reports are signs enough.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import threading

import sqlalchemy as sa
from oslo_log import log as logging

from fpgapool import version
from fpgapool.common import exception
from fpgapool.db import connected
from fpgapool.db import models
from fpgapool.db import records

LOG = logging.getLogger(__name__)

CONDUCTOR = "fpgapool-conductor"
API = "fpgapool-api"

_INTERVAL_S = 10.0
#: After so many seconds without a sign, a process counts as down.
SILENCE_S = 6 * _INTERVAL_S
# How long a process that stops waits for the database.
_STOP_S = 2.0
# After a day, it is forgotten.
_MEMORY_S = 86400.0

_COLUMNS = models.services.c


class Services(connected.Connected):
    """The part of the database that has the signs of life."""

    def services(self) -> list[records.ServiceRecord]:
        """Return the processes that have shown that they live."""
        query = sa.select(models.services).order_by(_COLUMNS.name)
        return self._fetch(query, records.ServiceRecord)

    def note_service(self, service: records.ServiceRecord) -> None:
        """Record that a process lives now, by the server's clock."""
        now = self.now()
        values = {**dataclasses.asdict(service), "seen_at": now}
        same = _COLUMNS.name == service.name
        with self._transaction() as connection:
            # In this order, because SQLite must lock before it reads.
            changed = connection.execute(
                sa.update(models.services).where(same).values(values)
            )
            if not changed.rowcount:
                connection.execute(sa.insert(models.services).values(values))
            connection.execute(
                sa.delete(models.services).where(
                    _COLUMNS.seen_at < now - _MEMORY_S
                )
            )

    def forget_service(self, name: str) -> None:
        with self._transaction() as connection:
            connection.execute(
                sa.delete(models.services).where(_COLUMNS.name == name)
            )


class Pulse:
    """Shows that this process lives, from its start to its stop.

    :param name: name of a conductor, whose last sign stays; by default the
        host and the number of the process, which is forgotten when it stops.
    """

    def __init__(
        self, database: Services, binary: str, name: str | None = None
    ) -> None:
        self._database = database
        self._binary = binary
        self._name = name
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
        host = socket.gethostname()
        service = records.ServiceRecord(
            # A web server may have forked since this was created.
            name=self._name or f"{host}:{os.getpid()}",
            binary=self._binary,
            host=host,
            version=version.version_string(),
        )
        failing = False
        while not self._stopping.is_set():
            try:
                self._database.note_service(service)
                failing = False
            except exception.DatabaseError as error:
                if not failing:
                    LOG.warning("Cannot show that it lives: %s", error)
                failing = True
            self._stopping.wait(_INTERVAL_S)
        if self._name is None:
            try:
                self._database.forget_service(service.name)
            except exception.DatabaseError as error:
                LOG.debug("Its last sign of life stays: %s", error)
