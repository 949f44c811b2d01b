# SPDX-License-Identifier: Apache-2.0

"""The dashboard for Grafana, asked of a real Prometheus."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest

from fpgapool import client
from tests.functional.allinone import harness
from tests.harness import dashboards
from tests.harness import waiting
from tests.services import process
from tests.services import prometheus as prometheus_service

PORTS = ("conductor_port", "agent_port", "api_port")
# What Grafana puts in.
VARIABLES = {"$__rate_interval": "1m", "$host": ".*"}
EXPRESSIONS = [
    pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")
    for panel in dashboards.panels()
    for target in panel["targets"]
]


@pytest.fixture(scope="module")
def prometheus(
    service_workspace: process.Workspace,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[prometheus_service.Prometheus]:
    """Give a Prometheus that has watched a pool at work."""
    ports = {name: process.free_port() for name in PORTS}
    config = tmp_path_factory.mktemp("config") / "pool.conf"
    lines = [f"{name} = {port}" for name, port in ports.items()]
    config.write_text("\n".join(["[metrics]", *lines, ""]))
    server = prometheus_service.Prometheus(service_workspace, ports.values())
    with harness.short_directory() as directory:
        pool = harness.Pool(
            directory,
            *(*harness.SMALL, "--api-port=0", f"--config-file={config}"),
        )
        try:
            url = pool.wait_until_ready()["api_url"]
            server.start()
            _work(server, url, pathlib.Path(directory))
            yield server
        finally:
            server.stop()
            pool.close()


def _work(
    server: prometheus_service.Prometheus, url: str, directory: pathlib.Path
) -> None:
    """Use the pool between two scrapes of all of its services."""

    def scrapes() -> float:
        found = server.evaluate("min(count_over_time(up[5m]))")
        ready = server.evaluate("sum(up)")
        is_up = ready and ready[0]["value"][1] == str(len(PORTS))
        return float(found[0]["value"][1]) if is_up else 0.0

    waiting.wait_until(lambda: scrapes() >= 2, "all services are scraped")
    front_door = client.PoolApi.at(url)
    for name in ("copy", "sha"):
        client.run_buffer(
            name,
            b"data" * 1000,
            params={"algorithm": "sha256"} if name == "sha" else {},
            front_door=front_door,
            timeout_s=harness.LIMIT_S,
        )
    ended = "sum(increase(fpgapool_conductor_sessions_opened_total[1m]))"
    waiting.wait_until(
        lambda: any(float(s["value"][1]) > 0 for s in server.evaluate(ended)),
        "Prometheus has seen sessions",
    )


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression_has_an_answer(
    prometheus: prometheus_service.Prometheus, expression: str
) -> None:
    """Wherever the pool tells all of its metrics."""
    asked = expression
    for name, value in VARIABLES.items():
        asked = asked.replace(name, value)
    answer = prometheus.evaluate(asked)
    series = set(re.findall(r"fpgapool_\w+", expression))
    if all(
        prometheus.evaluate(f"count_over_time({one}[1m]) > 1")
        for one in series
    ):
        assert answer, "no series fits another"


def test_most_expressions_are_about_what_a_small_pool_tells(
    prometheus: prometheus_service.Prometheus,
) -> None:
    """So the test above is about something."""
    known = {
        sample["metric"]["__name__"]
        for sample in prometheus.evaluate('{__name__=~"fpgapool_.+"}')
    }
    told = [
        param
        for param in EXPRESSIONS
        if set(re.findall(r"fpgapool_\w+", str(param.values[0]))) <= known
    ]
    assert len(told) > len(EXPRESSIONS) * 0.6
