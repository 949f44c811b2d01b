# SPDX-License-Identifier: Apache-2.0

"""What the API counts, and which requests are in the audit log."""

import json
import logging
import socket

import prometheus_client
import pytest
from prometheus_client import parser
from prometheus_client import registry

from fpgapool.api import metrics
from fpgapool.common.monitoring import audit
from fpgapool.common.monitoring import metrics as common_metrics
from tests.unit.api import fakes

REQUESTS = "fpgapool_api_requests_total"
LATENCY = "fpgapool_api_request_seconds_count"
ONE = "/v1/sessions/{session_id}"


def _told(counts: metrics.Metrics) -> dict[tuple[str, ...], float]:
    """Return what a scrape gets, by name and labels in alphabetical order."""
    collected = registry.CollectorRegistry()
    collected.register(
        common_metrics.Collector(metrics.DEFINITIONS, [counts.fill])
    )
    text = prometheus_client.generate_latest(collected).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_by_route_method_and_status(world) -> None:
    path = f"/v1/sessions/{fakes.view().session_id}"
    for _ in range(2):
        assert world.ask("GET", path).status_code == 200
    world.ask("GET", f"/v1/sessions/{'x' * 300}")
    world.ask("GET", "/v1/sessions?all_projects=true")
    world.ask("GET", "/v1/sessions", remote_addr="10.0.0.1")
    world.ask("GET", "/no/such/path")
    world.ask("TRACE", "/v1/pool", check=False)
    told = _told(world.backends.metrics)
    assert {key[1:]: told[key] for key in told if key[0] == REQUESTS} == {
        ("GET", ONE, "200"): 2,
        ("GET", ONE, "404"): 1,
        ("GET", "/v1/sessions", "403"): 1,
        ("GET", "other", "403"): 1,
        ("GET", "other", "404"): 1,
        ("other", "other", "405"): 1,
    }
    assert told[LATENCY, "GET", ONE] == 3
    assert told["fpgapool_api_requests_in_progress",] == 0


def test_waiters_are_counted(world) -> None:
    world.backends.metrics.waiters = world.waiting
    assert _told(world.backends.metrics)["fpgapool_api_waiters",] == 0


def test_a_request_that_breaks_the_server_ends(world) -> None:
    counts = metrics.Metrics()

    def broken(environ, start_response):
        raise RuntimeError("planted")

    app = metrics.Measured(broken, counts)
    with pytest.raises(RuntimeError, match="planted"):
        app({"REQUEST_METHOD": "GET"}, print)
    told = _told(counts)
    assert told[REQUESTS, "GET", "other", "500"] == 1
    assert told["fpgapool_api_requests_in_progress",] == 0


def _serve(conf, counts) -> metrics.WithEndpoint:
    return metrics.WithEndpoint(lambda *_: [b"served"], conf, counts)


@pytest.fixture
def ports(world, monkeypatch):
    """Configure two ports of which the first is taken; give both."""
    started = []
    start = common_metrics.Endpoint.start

    def remember(endpoint):
        start(endpoint)
        started.append(endpoint)

    monkeypatch.setattr(common_metrics.Endpoint, "start", remember)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = taken.getsockname()[1]
        world.conf.set_override("api_port", first, group="metrics")
        yield first, started
    for endpoint in started:
        endpoint.stop()
    world.conf.clear_override("api_port", group="metrics")
    world.conf.clear_override("api_processes", group="metrics")


def test_each_process_takes_the_first_free_port(world, ports) -> None:
    first, started = ports
    world.conf.set_override("api_processes", 20, group="metrics")
    served = _serve(world.conf, world.backends.metrics)
    assert not started
    for _ in range(2):
        assert served({}, print) == [b"served"]
    (endpoint,) = started
    assert first < endpoint.port < first + 20


def test_without_a_free_port_it_serves_all_the_same(
    world, ports, caplog
) -> None:
    first, started = ports
    served = _serve(world.conf, world.backends.metrics)
    for _ in range(3):
        assert served({}, print) == [b"served"]
    assert not started
    # Not a line for every request.
    assert caplog.text.count("No port is free") == 1
    assert f"port {first}: Address already in use" in caplog.text


def test_metrics_are_not_a_part_of_the_api(world) -> None:
    for path in ("/metrics", "/v1/metrics"):
        assert world.ask("GET", path, fakes.ADMIN).status_code == 404


# The audit log.


@pytest.fixture
def lines(caplog):
    """Give a function that returns and forgets the lines so far."""
    caplog.set_level(logging.INFO, logger=audit.LOGGER)

    def take():
        found = [
            json.loads(record.getMessage())
            for record in caplog.records
            if record.name == audit.LOGGER
        ]
        caplog.clear()
        return found

    return take


SESSION = f"/v1/sessions/{fakes.view().session_id}"


@pytest.mark.parametrize(
    ("method", "path", "token"),
    [
        ("GET", SESSION, fakes.MEMBER),
        ("DELETE", SESSION, fakes.MEMBER),
        ("GET", SESSION, fakes.STRANGER),
        ("GET", "/v1/sessions", fakes.MEMBER),
        ("GET", "/v1/slots", fakes.SERVICE),
        ("GET", "/v1/hosts", fakes.SERVICE),
        ("GET", "/v1/pool", fakes.ADMIN),
        # The live page asks for it every two seconds.
        ("GET", "/v1/pool/hosts", fakes.ADMIN),
    ],
)
def test_what_tenants_and_services_do_leaves_no_line(
    world, lines, method, path, token
) -> None:
    world.ask(method, path, token)
    assert lines() == []


@pytest.mark.parametrize(
    ("method", "path", "rule"),
    [
        ("GET", SESSION, "fpgapool:sessions:all_projects"),
        ("GET", "/v1/slots", "fpgapool:sessions:all_projects"),
        ("GET", "/v1/hosts", "fpgapool:hosts:list"),
        ("GET", "/v1/services", "fpgapool:services:list"),
        (
            "GET",
            "/v1/sessions?all_projects=true",
            "fpgapool:sessions:list:all_projects",
        ),
    ],
)
def test_what_administrators_do_leaves_a_line(
    world, lines, method, path, rule
) -> None:
    assert world.ask(method, path, fakes.ADMIN).status_code == 200
    (line,) = lines()
    assert rule in line["action"].split()
    assert (line["outcome"], line["user"]) == ("done", "root")
    assert line["project"] == "p9"
    assert line["request_id"].startswith("req-")


def test_an_act_on_the_session_of_another_project(world, lines) -> None:
    assert world.ask("DELETE", SESSION, fakes.ADMIN).status_code == 204
    (line,) = lines()
    assert line["action"].startswith(f"DELETE {ONE} ")
    assert line["target"] == {"session_id": fakes.view().session_id}
    assert line["before"] == {"state": "READY"}
    assert line["target_projects"] == ["p1"]


@pytest.mark.parametrize("token", [fakes.MEMBER, fakes.NOBODY])
def test_who_wants_more_than_it_may_leaves_a_line(world, lines, token) -> None:
    assert world.ask("GET", "/v1/hosts", token).status_code == 403
    (line,) = lines()
    assert (line["outcome"], line["code"]) == ("denied", "FORBIDDEN")


def test_what_has_failed_leaves_a_line(world, lines) -> None:
    world.database.failure = fakes.UNAVAILABLE
    assert world.ask("GET", "/v1/hosts", fakes.ADMIN).status_code == 503
    (line,) = lines()
    assert (line["outcome"], line["code"]) == (
        "failed",
        "DATABASE_UNAVAILABLE",
    )
