# SPDX-License-Identifier: Apache-2.0

"""One trace from the program to the worker, with OpenTelemetry's collector.

The collector is OpenTelemetry's own protocol in a web server: no registry has
the collector as a package.
"""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import pathlib
import subprocess
import sys
import threading
import typing
from collections.abc import Callable
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds
from tests.harness import processes
from tests.harness import waiting
from tests.services import process


class Span(typing.NamedTuple):
    """A span as the collector received it."""

    service: str
    name: str
    parent: bytes
    status: int
    begin: int
    end: int


class Collector:
    """Receives spans.

    :ivar traces: by trace, all spans by their ids.
    """

    def __init__(self) -> None:
        self.traces: dict[bytes, dict[bytes, Span]] = {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    data = gzip.decompress(data)
                outer.take(data)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(
            (process.LOOPBACK, 0), Handler
        )
        self.url = f"http://{process.LOOPBACK}:{self._server.server_port}"
        threading.Thread(
            target=self._server.serve_forever, daemon=True
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, data: bytes) -> None:
        request = trace_service_pb2.ExportTraceServiceRequest.FromString(data)
        for group in request.resource_spans:
            (service,) = [
                one.value.string_value
                for one in group.resource.attributes
                if one.key == "service.name"
            ]
            for scope in group.scope_spans:
                for span in scope.spans:
                    trace = self.traces.setdefault(span.trace_id, {})
                    trace[span.span_id] = Span(
                        service,
                        span.name,
                        span.parent_span_id,
                        span.status.code,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                    )

    def await_trace(self, *names: str) -> dict[bytes, Span]:
        """Wait for the trace that has spans of these names; forget others."""

        def find() -> dict[bytes, Span] | None:
            for trace in list(self.traces.values()):
                known = {one.name for one in trace.values()}
                parents = {one.parent for one in trace.values()}
                if known >= set(names) and parents <= {b"", *trace}:
                    return trace
            return None

        found = waiting.wait_until(find, lambda: f"{names}: {self.traces}")
        self.traces.clear()
        return found


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with contextlib.closing(Collector()) as collector:
        yield collector


@pytest.fixture(scope="module")
def cloud(
    make_cloud: Callable[..., clouds.Cloud], collector: Collector
) -> clouds.Cloud:
    """Give a pool that is traced."""
    return make_cloud(
        clouds.HostPlan("board", slots=1),
        options={"tracing": {"endpoint": f"{collector.url}/v1/traces"}},
        variables={"OTEL_BSP_SCHEDULE_DELAY": "100"},
    )


def _run(
    collector: Collector, directory: pathlib.Path, *door: str
) -> dict[str, typing.Any]:
    """Run the command, which traces itself."""
    source = directory / "in"
    source.write_bytes(b"abc")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fpgapool.cmd.run", "copy", "--json"),
            *("--in", str(source), "--out", str(directory / "out"), *door),
        ],
        capture_output=True,
        text=True,
        timeout=waiting.COMMAND_LIMIT_S,
        cwd=processes.ROOT,
        check=True,
        env={
            "PATH": "/usr/bin",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        },
    )
    result: dict[str, typing.Any] = json.loads(done.stdout)
    return result


def _path(trace: dict[bytes, Span], name: str) -> list[tuple[str, str]]:
    """Return the spans from the root to the one of a name."""
    (span,) = [one for one in trace.values() if one.name == name]
    found = [span]
    while found[0].parent:
        # All parents have come.
        found.insert(0, trace[found[0].parent])
    assert all(one.begin <= one.end for one in found)
    return [(one.service, one.name) for one in found]


def test_one_tree_through_the_front_door(
    cloud: clouds.Cloud, collector: Collector, tmp_path: pathlib.Path
) -> None:
    path = cloud.hosts["board"].socket_path()
    _run(collector, tmp_path, "--socket", path)
    names = ("acc_open", "worker program", "worker run")
    trace = collector.await_trace(*names)
    order = [
        ("fpgapool-run", "acc_open"),
        ("fpgapool-agent", "front door open"),
        ("fpgapool-conductor", "conductor queue"),
        ("fpgapool-agent", "agent order"),
    ]
    for name in names[1:]:
        assert _path(trace, name) == [*order, ("fpgapool-worker", name)]
    assert not any(one.status for one in trace.values())


def test_one_tree_through_the_api(
    cloud: clouds.Cloud,
    collector: Collector,
    api: api_harness.Server,
    tmp_path: pathlib.Path,
) -> None:
    _run(collector, tmp_path, "--api-url", f"http://{api.address}")
    trace = collector.await_trace("acc_open", "worker run")
    assert _path(trace, "worker run") == [
        ("fpgapool-run", "acc_open"),
        ("fpgapool-api", "API POST"),
        ("fpgapool-conductor", "conductor queue"),
        ("fpgapool-agent", "agent order"),
        ("fpgapool-worker", "worker run"),
    ]


def test_a_program_that_is_not_traced(
    cloud: clouds.Cloud, collector: Collector
) -> None:
    """The front door begins the trace; what fails has a status."""
    with cloud.hosts["board"].door() as door:
        door.refusal(accelerator="nothing")
    trace = collector.await_trace("front door open", "conductor queue")
    assert [name for _, name in _path(trace, "conductor queue")] == [
        "front door open",
        "conductor queue",
    ]
    (queue,) = [o for o in trace.values() if o.name == "conductor queue"]
    assert queue.status == 2
