# SPDX-License-Identifier: Apache-2.0

"""Compute on this machine's CPU while a session waits for a slot.

A slot takes over between two pieces of the input. If the slot is lost, the CPU
continues until the next slot is ready.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import typing
from collections.abc import Callable
from typing import Any

from fpgapool.client import errors
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import software
from fpgapool.common.channels import channel
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

_REPORT_S = 1.0

_Found: typing.TypeAlias = tuple[connections.Dialer, connections.Connection]


class BridgingSeeker(waiting.SlotSeeker):
    """Seeks slots in another thread while the CPU computes.

    :param load: loads the software core when it is first needed; called with
        the maximum piece length that all workers accept, or None if unknown.
    :param falls_back: whether the CPU finishes the work if the pool fails.
    """

    def __init__(
        self,
        *arguments: Any,
        load: Callable[[int | None], software.Software],
        falls_back: bool,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._load = load
        self._software: software.Software | None = None
        self._forgiven = software.FALLBACK_CODES if falls_back else ()
        self._thread: threading.Thread | None = None
        # Only the seeking thread writes the next attributes until this is set.
        self._known = threading.Event()
        self._computing: (
            tuple[software.CpuDialer, software.CpuConnection] | None
        )
        self._computing = None
        self._failure: BaseException | None = None
        # When to report next; None if the pool accepts no reports.
        self._reports_at_s: float | None = None
        # Set by the seeking thread just before it ends.
        self._found: _Found | None = None
        # OPENED of the last slot, in which the session may have begun.
        self._slot: connections.Opened | None = None

    @property
    def cpu_energy_j(self) -> float | None:
        return self._software and self._software.cpu_energy_j

    def open(
        self,
        ask: waiting.Ask,
        deadline_s: float | None,
        **limits: float | None,
    ) -> _Found:
        """See :meth:`waiting.SlotSeeker.open`.

        :returns: the connection to a slot if one is ready, otherwise to the
            CPU, as soon as the pool has accepted the request.
        """
        base = super()
        try:
            self._seek_beside(lambda: base.open(ask, None, **limits))
            if not self._known.wait(channel.remaining_s(deadline_s)):
                raise errors.OperationTimeout(
                    "the pool did not respond in time"
                )
            if self._failure is not None:
                raise self._failure
        except BaseException:
            self._stop_seeking()
            raise
        return self._computing or self._take_found()

    def reopen(
        self,
        lost: views.SessionView,
        input_offset_bytes: int,
        output_offset_bytes: int,
        deadline_s: float | None,
    ) -> _Found:
        """See :meth:`.SlotSeeker.reopen`; without a slot, use the CPU."""
        if self._found is not None:
            return self._take_found()
        base = super()
        offsets_bytes = input_offset_bytes, output_offset_bytes
        computing = self._compute(lost, *offsets_bytes)
        self._seek_beside(lambda: base.reopen(lost, *offsets_bytes, None))
        return computing

    def _take_found(self) -> _Found:
        found, self._found = self._found, None
        self._computing = None
        assert found is not None
        self._slot = found[1].opened
        return found

    def _compute(
        self, view: views.SessionView, *offsets_bytes: int
    ) -> tuple[software.CpuDialer, software.CpuConnection]:
        if self._software is None:
            self._software = self._load(view.chunk_bytes)
        self._computing = (
            software.CpuDialer(_without_slot(view), self.token),
            self._software.connect(
                self.token, *offsets_bytes, moves=True, former=self._slot
            ),
        )
        return self._computing

    def _seek_beside(self, seek: Callable[[], _Found]) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(seek,), name="fpgapool-seeker", daemon=True
        )
        self._thread.start()

    def _run(self, seek: Callable[[], _Found]) -> None:
        try:
            self._found = seek()
            self._end(codes.SUPERSEDED, "a slot continues the session")
        except waiting.Ended as exc:
            self._show(exc.view)
            self._fail(errors.rejection(*exc.view.ending))
        except BaseException as exc:
            self._fail(exc)
        self._known.set()

    def _fail(self, failure: BaseException) -> None:
        self._failure = failure
        if isinstance(failure, errors.FpgapoolError):
            self._failure = failure.again()
            if self._known.is_set() and failure.code in self._forgiven:
                self.fallback_reason = failure.code
                return
            self._end(failure.code, failure.message)
        else:
            self._end(codes.SESSION_LOST, type(failure).__name__)

    def _end(self, code: str, message: str) -> None:
        if self._computing is not None:
            self._computing[1].worker.end(code, message)

    def _show(self, view: views.SessionView) -> None:
        if self._computing is not None:
            self._computing[0].view = _without_slot(view)

    def _next_view(self, pause_s: float | None) -> views.SessionView | None:
        while True:
            report_s = self._reports_at_s
            try:
                view = super()._next_view(waiting.earliest(pause_s, report_s))
                break
            except errors.OperationTimeout:
                if report_s is None or channel.remaining_s(report_s):
                    raise
                if channel.remaining_s(pause_s) == 0:
                    raise
                self._report()
        if view is not None and view.state != states.READY:
            if self._computing is None:
                self._compute(view)
                self._reports_at_s = channel.deadline_after(_REPORT_S)
            self._known.set()
        if view is not None:
            self._show(view)
        return view

    def _may_connect(self, view: views.SessionView) -> bool:
        # While a worker lets a connection wait, the CPU would do nothing.
        return view.state == states.READY

    def _report(self) -> None:
        """Report the CPU's progress: the pool uses it to order its queue."""
        self._reports_at_s = channel.deadline_after(_REPORT_S)
        view, connection = self._view, self._computing[1]
        if view is None or view.state != states.QUEUED:
            return
        input_bytes = connection.worker.input_bytes
        try:
            self._call(
                lambda limit_s: self.door.request(
                    "progress",
                    limit_s,
                    session_id=view.session_id,
                    input_bytes=input_bytes,
                ),
                time.monotonic(),
            )
        except errors.RequestRejected:
            # The API and older pools do not accept reports.
            self._reports_at_s = None

    def _connect(
        self, dialer: connections.Dialer
    ) -> connections.Connection | bool:
        if self._computing is None:
            return super()._connect(dialer)
        worker = self._computing[1].worker
        self._offsets_bytes = worker.pause()
        if worker.finished:
            self.give_up(dialer.view.session_id)
            raise waiting.Stopped
        attempt: connections.Connection | bool = False
        try:
            attempt = super()._connect(dialer)
            return attempt
        finally:
            if not isinstance(attempt, connections.Connection):
                worker.go_on()

    def close(self) -> None:
        if self._computing is not None:
            # The session ends without a slot.
            self.give_up(self._computing[0].view.session_id)
            self._stop_seeking()
        super().close()

    def _stop_seeking(self) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()
        if self._found is not None:
            dialer, connection = self._found
            dialer.hang_up(connection.channel)
        if self._computing is not None:
            self._computing[0].hang_up(self._computing[1].channel)


def _without_slot(view: views.SessionView) -> views.SessionView:
    """Leave out the slot, which may be known before it computes."""
    return dataclasses.replace(
        view, host_name=None, device=None, slot=None, local=None
    )
