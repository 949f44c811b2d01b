# SPDX-License-Identifier: Apache-2.0

"""Sends a host's reports, and messages about ready slots, to the conductor."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from collections.abc import Hashable

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.rpcapi import conductor as conductor_api

RETRY_S = 1.0

#: Delay of a report after a change: while a slot is being prepared, it changes
#: several times within milliseconds, and one report covers all of that.
GATHER_S = 0.02

KEY = "report"


@dataclasses.dataclass(eq=False)
class Reporter:
    """Reports the slots shortly after changes, and periodically.

    All methods except :meth:`failed` run in the loop's thread.

    :param make: returns a report; takes the members that are known here.
    :ivar busy: number of slots in use, set by the agent.
    """

    loop: agent_loop.Loop
    conductor: conductor_api.ConductorAPI
    casts: sender.Sender
    interval_s: float
    make: Callable[..., objects.AgentReport]

    def __post_init__(self) -> None:
        self._boot_id = f"{time.time_ns()}-{os.getpid()}"
        self._sequence = 0
        self._serving = False
        self._pending = self._gathering = False
        self.busy = 0
        # Highest number of slots in use since the last report.
        self._most_busy = 0
        self._timer: agent_loop.Timer | None = None

    def start(self) -> None:
        self._serving = True
        self._report()

    def stop(self) -> None:
        self._serving = False

    def soon(self, *, at_once: bool = False) -> None:
        """Report changes soon, or immediately if a slot has become free.

        :param at_once: whether its next holder has begun already.
        """
        if not self._serving or self._pending:
            return
        if at_once or self.busy < self._most_busy:
            # Report all changes of this turn of the loop together.
            self._pending = True
            self.loop.call(self._report)
            return
        self._most_busy = self.busy
        if not self._gathering:
            self._gathering = True
            self._schedule(GATHER_S)

    def _report(self) -> None:
        self._pending = self._gathering = False
        if not self._serving:
            return
        self._most_busy = self.busy
        self._schedule(self.interval_s)
        self._sequence += 1
        report = self.make(
            agent_boot_id=self._boot_id,
            sequence=self._sequence,
            sent_at=time.time(),
        )
        self.casts.put_first(KEY, lambda: self.conductor.report(report))

    def _schedule(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(delay_s, self._report)

    def failed(self, key: Hashable) -> None:
        """Repeat a lost report before the next one is due.

        :param key: key of the cast that could not be sent.
        """
        if key == KEY:
            self.loop.call(self._again)

    def _again(self) -> None:
        # A report that is already scheduled after a change is due sooner.
        if not self._gathering:
            self._schedule(min(RETRY_S, self.interval_s))

    def prepared(self, prepared: objects.Prepared) -> None:
        """Report that a slot is ready for its client.

        This message may overtake reports; its sequence number shows the
        conductor which reports are older.
        """
        numbered = dataclasses.replace(
            prepared, agent_boot_id=self._boot_id, sequence=self._sequence
        )
        self.casts.put_first(
            ("prepared", prepared.device, prepared.slot),
            lambda: self.conductor.prepared(numbered),
        )
