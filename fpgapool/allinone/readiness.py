# SPDX-License-Identifier: Apache-2.0

"""Report when the pool is ready, and stop it when its parent program ends."""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Callable
from collections.abc import Mapping

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool.allinone import program
from fpgapool.common import exception
from fpgapool.conductor import service as conductor_service
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.05
# A busy machine needs many seconds; users want to know what happens meanwhile.
_REPORT_INTERVAL_S = 2.0
# With the database of a former run, slots may have sessions and groups again,
# or be disabled. One that is being prepared may still fail.
_READY = (
    states.SLOT_IDLE,
    states.SLOT_READY,
    states.SLOT_ACTIVE,
    states.SLOT_DETACHED,
    states.DISABLED,
)


class Readiness:
    """A service that waits until a conductor leads and enough slots are ready.

    RPC must have been set up.

    :param fault: returns the reason why the pool cannot become ready, or None.
    :param on_wait: called now and then with what is not ready yet.
    :param on_failure: called with a reason if the pool does not become ready.
    :param timeout_s: how long to wait.
    """

    def __init__(
        self,
        conductor: conductor_service.Conductor,
        slots: int,
        fault: Callable[[], str | None],
        on_ready: Callable[[], None],
        on_wait: Callable[[str], None],
        on_failure: Callable[[str], None],
        timeout_s: float = program.START_TIMEOUT_S,
    ) -> None:
        self._conductor = conductor
        self._api = conductor_api.ConductorAPI()
        self._slots = slots
        self._fault = fault
        self._on_ready = on_ready
        self._on_wait = on_wait
        self._on_failure = on_failure
        self._timeout_s = timeout_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="readiness")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        polls = int(self._timeout_s / POLL_INTERVAL_S)
        reports = int(_REPORT_INTERVAL_S / POLL_INTERVAL_S)
        for poll in range(1, polls + 1):
            if self._stopping.wait(POLL_INTERVAL_S):
                return
            if (cause := self._fault()) is not None:
                self._on_failure(cause)
                return
            missing = self._missing()
            if missing is None:
                self._on_ready()
                return
            if poll % reports == 0:
                self._on_wait(missing)
        self._on_failure(
            f"not all slots were ready within {self._timeout_s:g} s"
        )

    def _missing(self) -> str | None:
        """:returns: what is not ready yet; None if everything is."""
        if not self._conductor.wait_until_leading(0):
            return "the conductor is starting"
        try:
            counts = self._api.pool_counts()
        except (messaging.MessagingException, exception.FpgapoolException):
            LOG.debug("The conductor does not respond yet", exc_info=True)
            return "the conductor does not respond yet"
        slots = counts["slots"].values()
        ready = sum(one.get(state, 0) for one in slots for state in _READY)
        if ready >= self._slots:
            return None
        return f"{ready} of {self._slots} slots are ready"


class Lifeline:
    """A service that watches the pipe to the parent program.

    The pipe's other end is closed when that program ends.

    :param on_lost: called once, when the parent has ended.
    """

    def __init__(self, fd: int, on_lost: Callable[[], None]) -> None:
        self._fd = fd
        self._on_lost = on_lost
        self._wake_read_fd, self._wake_write_fd = os.pipe()
        self._thread = threading.Thread(target=self._run, name="lifeline")

    def start(self) -> None:
        # Workers must not keep the pipe open after this process ends.
        os.set_inheritable(self._fd, False)
        self._thread.start()

    def announce(self, document: Mapping[str, object]) -> None:
        """Write a line of JSON."""
        try:
            os.write(self._fd, json.dumps(document).encode() + b"\n")
        except OSError as error:
            # The watching thread handles a closed pipe.
            LOG.warning("Cannot report that the pool is ready: %s", error)

    def stop(self) -> None:
        os.close(self._wake_write_fd)
        self._thread.join()
        os.close(self._wake_read_fd)

    def _run(self) -> None:
        poller = select.poll()
        # poll() always reports errors, which include a closed other end.
        poller.register(self._fd, 0)
        poller.register(self._wake_read_fd, 0)
        ready = [fd for fd, _event in poller.poll()]
        if self._wake_read_fd not in ready:
            LOG.info("The program that started this one has ended")
            self._on_lost()
