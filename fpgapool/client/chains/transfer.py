# SPDX-License-Identifier: Apache-2.0

"""Sends whole inputs through chains."""

from __future__ import annotations

import dataclasses
import functools
import socket
import threading
import time
import uuid
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client import options as session_options
from fpgapool.client import shown
from fpgapool.client.chains import checking
from fpgapool.client.chains import meanwhile
from fpgapool.client.chains import stage as stages
from fpgapool.client.links import waiting
from fpgapool.client.sessions import opening as session_opening
from fpgapool.client.sessions import session as sessions
from fpgapool.client.sessions import together
from fpgapool.client.transfers import bars
from fpgapool.client.transfers import feeding
from fpgapool.client.transfers import sinks
from fpgapool.client.transfers import transfer
from fpgapool.common.channels import buffers
from fpgapool.common.channels import waits

# A set needs a name of its own, of at most 64 characters.
_NAME_STEM = 56


@dataclasses.dataclass(frozen=True)
class StageReport(shown.ShownFields):
    """What one stage of a chain did; see :class:`.transfer.RunReport`.

    :ivar cpu_bytes: input that this machine's CPU has processed.
    """

    accelerator: str
    session_id: str
    input_bytes: int
    output_bytes: int
    host: str | None
    device: str | None
    slot: int | None
    local: bool
    reconnects: int
    reopens: int
    cpu_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class ChainReport(shown.ShownFields):
    """The results of a transfer through a chain.

    :ivar waited_s: seconds from the request until all slots were ready.
    :ivar ran_s: seconds from then until the last output was written.
    :ivar restarts: how often all of it had to begin again.
    """

    waited_s: float
    ran_s: float
    input_bytes: int
    output_bytes: int
    bytes_per_s: float
    restarts: int
    stages: tuple[StageReport, ...]


@dataclasses.dataclass
class Job:
    """One transfer."""

    wanted: Sequence[checking.Stage]
    source: feeding.Source
    sink: sinks.Sink
    size_bytes: int
    progress: bars.Progress | bool | None
    deadline_s: float | None
    options: session_options.Options

    def __post_init__(self) -> None:
        self._waited_s = self._ran_s = 0.0
        self._restarts = 0
        self._tell: bars.Progress | None = None
        self._began_s = time.monotonic()
        self._token = cancelling.token_of(self.options.get("cancel"))

    def run(self) -> ChainReport:
        name = " + ".join(one.accelerator for one in self.wanted)
        try:
            with bars.reporting(self.progress, name) as self._tell:
                return self._run()
        finally:
            cancelling.release(self._token)

    def _run(self) -> ChainReport:
        while True:
            token = cancelling.LinkedToken()
            self._token.attach(token)
            beside = self._beside() if self.options.get("meanwhile") else None
            try:
                found = (
                    self._open(token)
                    if beside is None
                    else self._compute(beside)
                )
                if found is None:
                    assert beside is not None
                    self.source.check_end(self._check)
                    return self._cpu_report(beside)
                pipeline = Pipeline(
                    self, [(one, _flow_of(one)) for one in found], beside
                )
                try:
                    self._transfer(pipeline)
                except errors.SessionFailed as exc:
                    if not self._can_start_over(exc, pipeline):
                        raise
                    self._restarts += 1
                else:
                    self.source.check_end(self._check)
                    return self._report(found, beside)
            finally:
                self._token.detach(token)
                if beside is not None:
                    beside.close()

    def _transfer(self, pipeline: Pipeline) -> None:
        started_s = time.monotonic()
        try:
            pipeline.transfer()
        finally:
            self._ran_s += time.monotonic() - started_s

    def _open(self, token: cancelling.LinkedToken) -> list[sessions.Session]:
        """Get slots for all stages at the same time, as a set."""
        started_s = time.monotonic()
        set_id = self._name_set()
        openers = [
            functools.partial(self._open_stage, set_id, index)
            for index in range(len(self.wanted))
        ]
        try:
            return together.open_all(openers, token)
        except together.Failed as exc:
            raise exc.failed[together.first_failed(exc.failed)] from None
        finally:
            self._waited_s += time.monotonic() - started_s

    def _name_set(self) -> str:
        """Return the name of the set of this attempt."""
        name = self.options.get("request_id")
        if name is None:
            return uuid.uuid4().hex
        again = f".{self._restarts}" if self._restarts else ""
        return f"{name[:_NAME_STEM]}{again}"

    def _beside(self) -> meanwhile.Beside:
        return meanwhile.Beside(
            self.wanted,
            self.source,
            self.sink,
            self.size_bytes,
            self.deadline_s,
            self._token,
            functools.partial(self._open_stage, self._name_set()),
            self._tell,
        )

    def _compute(
        self, beside: meanwhile.Beside
    ) -> list[sessions.Session] | None:
        started_s = time.monotonic()
        try:
            return beside.run()
        finally:
            self._waited_s += time.monotonic() - started_s

    def _open_stage(
        self,
        set_id: str,
        index: int,
        token: cancelling.CancelToken,
        make_seeker: Callable[..., waiting.SlotSeeker] = waiting.SlotSeeker,
    ) -> sessions.Session:
        one = self.wanted[index]
        options = session_options.Options(
            **{
                **self.options,
                "params": one.params,
                "request_id": f"{set_id}.{one.number}",
                "set_id": set_id,
                "set_size": len(self.wanted),
                "meanwhile": None,
                "cancel": token,
            }
        )
        deadline_s = options.get("deadline_s")
        if deadline_s is not None:
            # It is that of the chain, so it began with the first request.
            used_s = time.monotonic() - self._began_s
            options["deadline_s"] = max(deadline_s - used_s, 0.001)
        try:
            return session_opening.open_stage(
                one.accelerator,
                checking.claims(self.wanted, self.size_bytes)[index],
                transfer.left_s(self.deadline_s),
                options,
                stages.StageFlow,
                last=one.number == len(self.wanted),
                make_seeker=make_seeker,
            )
        except errors.FpgapoolError as exc:
            raise exc.of_stage(one.number, one.accelerator) from None

    def _check(self) -> None:
        transfer.left_s(self.deadline_s)
        self._token.check()

    def _can_start_over(
        self, failure: errors.SessionFailed, pipeline: Pipeline
    ) -> bool:
        return (
            failure.code in transfer.RESTART_CODES
            and self._restarts < transfer.MAX_RESTARTS
            and not pipeline.feeder.is_alive()
            and self.source.rewind()
            and self.sink.rewind()
        )

    def _cpu_report(self, beside: meanwhile.Beside) -> ChainReport:
        """Report what the CPU has computed alone."""
        computing = beside.computing
        assert computing is not None
        reports = [
            StageReport(
                accelerator=one.wanted.accelerator,
                session_id="",
                input_bytes=one.input_bytes,
                output_bytes=one.output_bytes,
                host=socket.gethostname(),
                device=None,
                slot=None,
                local=True,
                reconnects=0,
                reopens=0,
                cpu_bytes=one.input_bytes,
            )
            for one in computing.stages
        ]
        ran_s, self._waited_s = self._waited_s, 0.0
        return ChainReport(
            self._waited_s,
            ran_s,
            reports[0].input_bytes,
            reports[-1].output_bytes,
            reports[0].input_bytes / max(ran_s, 1e-9),
            self._restarts,
            tuple(reports),
        )

    def _report(
        self,
        opened: Sequence[sessions.Session],
        beside: meanwhile.Beside | None,
    ) -> ChainReport:
        computed = [0] * len(opened)
        if beside is not None and beside.computing is not None:
            computed = [one.input_bytes for one in beside.computing.stages]
        used = [one.statistics for one in opened]
        return ChainReport(
            self._waited_s,
            self._ran_s,
            used[0].input_bytes,
            used[-1].output_bytes,
            used[0].input_bytes / max(self._ran_s, 1e-9),
            self._restarts,
            tuple(
                StageReport(
                    one.accelerator,
                    session.session_id,
                    amounts.input_bytes,
                    amounts.output_bytes,
                    session.host_name,
                    session.device,
                    session.slot,
                    session.local,
                    session.reconnects,
                    session.reopens,
                    cpu_bytes,
                )
                for one, session, amounts, cpu_bytes in zip(
                    self.wanted, opened, used, computed, strict=True
                )
            ),
        )


def _flow_of(session: sessions.Session) -> stages.StageFlow:
    assert isinstance(session.flow, stages.StageFlow)
    return session.flow


class Pipeline:
    """The open stages; all but the last one run beside each other.

    :param opened: sessions and their flows, in order.
    :param beside: what has computed before them, if anything.
    """

    def __init__(
        self,
        job: Job,
        opened: Sequence[tuple[sessions.Session, stages.StageFlow]],
        beside: meanwhile.Beside | None = None,
    ) -> None:
        self._job = job
        self._sessions = [session for session, _ in opened]
        self._flows = [flow for _, flow in opened]
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._running: list[waits.Running] = []
        if beside is None:
            self.feeder = job.source.feeder(
                self._flows[0], job.size_bytes, job.deadline_s
            )
        else:
            self.feeder = beside.rest(self._flows[0])

    def transfer(self) -> None:
        """Move all data, and close the sessions."""
        try:
            self._connect()
            self._move()
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            for flow in self._flows[:-1]:
                flow.settle_all()
            for session in self._sessions:
                session.close()
        except BaseException:
            for session in self._sessions:
                session.abort()
            raise
        finally:
            # See errors.FpgapoolError.again().
            failure = None

    def _connect(self) -> None:
        require_tls = bool(self._job.options.get("require_tls"))
        hops: list[stages.Hop | None] = [None, None]
        hops[1:1] = [
            stages.Hop(sender, receiver, require_tls)
            for sender, receiver in zip(
                self._flows[:-1], self._flows[1:], strict=True
            )
        ]
        for index, flow in enumerate(self._flows):
            wanted = self._job.wanted[index]
            flow.number, flow.accelerator = wanted.number, wanted.accelerator
            flow.deadline_s = self._job.deadline_s
            flow.join(hops[index], hops[index + 1])
        # Receivers first, so that their workers expect the links.
        for flow in reversed(self._flows):
            flow.send_link()

    def _move(self) -> None:
        try:
            with self._sessions[-1].using():
                for number, one in enumerate(
                    zip(self._sessions[:-1], self._flows[:-1], strict=True), 1
                ):
                    work = functools.partial(self._work, *one)
                    name = f"fpgapool-stage-{number}"
                    self._running.append(waits.spawn(work, name))
                self.feeder.start()
                self._receive(self._flows[-1])
        except BaseException as exc:
            self._failed(exc, self._flows[-1])
        else:
            for flow in self._flows[:-1]:
                flow.end()
        finally:
            self.feeder.stop()
            for running in self._running:
                running.join(sessions.CLOSE_TIMEOUT_S)

    def _receive(self, flow: stages.StageFlow) -> None:
        """Receive all output of the last stage."""
        job, told_bytes = self._job, -1
        place = buffers.blank(0 if flow.shared else flow.chunk_bytes)
        while not flow.ended:
            wanted = job.sink.place()
            output = flow.receive(
                place if wanted is None else wanted, job.deadline_s
            )
            if output is not None and output.data:
                job.sink.write(output.data)
            done_bytes = self._flows[0].acknowledged_bytes
            if job._tell is not None and done_bytes != told_bytes:
                job._tell(done_bytes, job.size_bytes)
                told_bytes = done_bytes

    def _work(self, session: sessions.Session, flow: stages.StageFlow) -> None:
        try:
            with session.using():
                flow.run()
        except BaseException as exc:
            self._failed(exc, flow)

    def _failed(self, exc: BaseException, flow: stages.StageFlow) -> None:
        """Keep the first failure, and stop all stages."""
        errors.release_frames(exc)
        with self._lock:
            if self._failure is None:
                self._failure = self._named(self.feeder.failure or exc, flow)
        for one in self._flows:
            one.stop()

    def _named(
        self, exc: BaseException, flow: stages.StageFlow
    ) -> BaseException:
        if exc is self.feeder.failure:
            flow = self._flows[0]
            if isinstance(exc, waiting.Stopped | errors.FpgapoolError):
                return exc
            return sessions.translated(flow, exc) or exc
        if isinstance(exc, errors.FpgapoolError):
            return exc.of_stage(flow.number, flow.accelerator)
        return exc
