# SPDX-License-Identifier: Apache-2.0

"""The spans of assignments, and of workers, which reach no collector."""

from __future__ import annotations

import dataclasses

from fpgapool import objects
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import slot as slots
from fpgapool.common.monitoring import tracing
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states


@dataclasses.dataclass(slots=True)
class _Traced:
    generation: int
    ordered_at: float
    span: tracing.Span


class Traces:
    """Makes the spans of each slot's newest assignment.

    ``now`` is the wall clock in seconds.
    """

    def __init__(self) -> None:
        self._traced: dict[orders.Key, _Traced] = {}

    def ordered(
        self, key: orders.Key, request: objects.AssignRequest, now: float
    ) -> None:
        """An assignment goes to its slot's worker."""
        parent = carriers.valid(request.carrier).get(carriers.TRACEPARENT)
        if parent is None:
            # Nobody wants a trace of it.
            self._traced.pop(key, None)
            return
        known = self._traced.get(key)
        if known is not None and known.generation == request.generation:
            return
        span = tracing.begin(
            "agent order",
            parent,
            now,
            session_id=request.session_id,
            slot=f"{key[0]}.{key[1]}",
            generation=request.generation,
        )
        self._traced[key] = _Traced(request.generation, now, span)

    def prepared(self, key: orders.Key, generation: int, now: float) -> None:
        """The slot waits for its client."""
        traced = self._traced.get(key)
        if traced is not None and traced.generation == generation:
            traced.span.end(now)

    def ended(
        self,
        key: orders.Key,
        result: objects.SessionResult,
        status: slots.WorkerStatus | None,
        now: float,
    ) -> None:
        """An assignment has ended."""
        traced = self._traced.get(key)
        if traced is None or traced.generation != result.generation:
            return
        del self._traced[key]
        error = "" if result.code in codes.AS_WANTED else result.code
        failed = result.state == states.PREPARE_FAILED
        traced.span.end(now, error=error if failed else "")

        def worker_span(name: str, began: float, ended: float, **more: object):
            # Workers run others' code, so their clocks may say anything.
            began = min(max(began, traced.ordered_at), now)
            tracing.begin(
                name, traced.span.traceparent, began, service=tracing.WORKER
            ).end(min(max(ended, began), now), **more)

        programming = status and status.programming
        if programming and programming["generation"] == result.generation:
            worker_span(
                "worker program",
                programming["began_at"],
                programming["ended_at"],
                error=error if failed else "",
            )
        if result.started_at is not None:
            worker_span(
                "worker run",
                result.started_at,
                result.finished_at,
                error=error,
                input_bytes=result.input_bytes,
                output_bytes=result.output_bytes,
            )
