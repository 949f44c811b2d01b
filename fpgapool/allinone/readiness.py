# SPDX-License-Identifier: Apache-2.0

"""Report when the pool is ready, and stop it when its parent program ends."""

from __future__ import annotations

import json
import os
import select
import threading
import typing
from collections.abc import Callable
from collections.abc import Mapping

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor import service as conductor_service
from fpgapool.rpcapi import conductor as conductor_api

LOG = logging.getLogger(__name__)

START_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.05


class Readiness:
    """A service that waits until a conductor leads and enough slots are idle.

    RPC must have been set up.

    :param fault: returns the reason why the pool cannot become ready, or None.
    :param on_failure: called with a reason if the pool does not become ready.
    """

    def __init__(
        self,
        conductor: conductor_service.Conductor,
        slots: int,
        fault: Callable[[], str | None],
        on_ready: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._conductor = conductor
        self._api = conductor_api.ConductorAPI()
        self._slots = slots
        self._fault = fault
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="readiness")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        polls = int(START_TIMEOUT_S / POLL_INTERVAL_S)
        for _ in range(polls):
            if self._stopping.wait(POLL_INTERVAL_S):
                return
            if (cause := self._fault()) is not None:
                self._on_failure(cause)
                return
            if self._is_ready():
                self._on_ready()
                return
        self._on_failure(
            f"not all slots were idle within {START_TIMEOUT_S:g} s"
        )

    def _is_ready(self) -> bool:
        if not self._conductor.wait_until_leading(0):
            return False
        try:
            summary = self._api.pool_summary()
        except (messaging.MessagingException, exception.FpgapoolException):
            LOG.debug("The conductor does not respond yet", exc_info=True)
            return False
        return count_idle_slots(summary) >= self._slots


def count_idle_slots(summary: Mapping[str, typing.Any]) -> int:
    """Return the number of idle slots on hosts that are up."""
    return sum(
        slot["state"] == "idle"
        for host in summary["hosts"]
        if host["up"]
        for device in host["devices"]
        if device["healthy"]
        for slot in device["slots"]
    )


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
