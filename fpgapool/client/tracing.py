# SPDX-License-Identifier: Apache-2.0

"""Spans of programs that trace themselves with OpenTelemetry.

A program that has set up OpenTelemetry has imported its API. The library does
not import it, so other programs pay nothing.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class Span:
    """A context manager: a span from now until its end.

    :ivar traceparent: W3C's trace context for messages; None: no trace.
    """

    traceparent: str | None = None

    def __init__(self, name: str) -> None:
        api: Any = sys.modules.get("opentelemetry.trace")
        self._api = api
        if api is None:
            return
        self._span = api.get_tracer("fpgapool").start_span(
            name, kind=api.SpanKind.CLIENT
        )
        found = self._span.get_span_context()
        if found.is_valid:
            self.traceparent = (
                f"00-{found.trace_id:032x}-{found.span_id:016x}"
                f"-{found.trace_flags:02x}"
            )

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if self._api is None:
            return
        if exc is not None:
            code = getattr(exc, "code", type(exc).__name__)
            self._span.set_status(self._api.StatusCode.ERROR, str(code))
        self._span.end()
