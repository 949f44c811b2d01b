# SPDX-License-Identifier: Apache-2.0

"""Counts, pages and the port on which they are told."""

import errno
import hashlib
import http.client
import math
import os
import socket
import ssl
import threading
import types
import urllib.request
from unittest import mock

import prometheus_client
import pytest
from oslo_config import cfg
from prometheus_client import parser
from prometheus_client import registry

from fpgapool import conf as fpgapool_conf
from fpgapool.common import exception
from fpgapool.common.monitoring import metrics
from fpgapool.common.monitoring import scraping
from fpgapool.common.monitoring import tallies
from fpgapool.vocabulary import codes
from tests.harness import cases
from tests.harness import threads
from tests.harness import waiting
from tests.services import certificates

DEFINITIONS = metrics.table(
    """
counter t_done_total{kind} = done
    Done.
gauge t_here = here
    Here, and
    nowhere else.
histogram t_seconds{kind} = timings.durations
    Time.
counter t_lost_total{kind} = timings.failures
    Lost.
"""
)
DONE, HERE, *_ = DEFINITIONS


def _told(*fills: metrics.Fill) -> dict[tuple[str, str], float]:
    """Return what a scrape gets, by name and labels."""
    collected = registry.CollectorRegistry()
    collected.register(metrics.Collector(DEFINITIONS, fills))
    text = prometheus_client.generate_latest(collected).decode()
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_histogram_counts_bounds_to_their_classes() -> None:
    histogram = tallies.Histogram((1.0, 2.5))
    for value in (0.5, 1.0, 2.0, 2.5, 7.0):
        histogram.observe(value)
    buckets, total = histogram.read()
    assert buckets == [("1.0", 2.0), ("2.5", 4.0), ("+Inf", 5.0)]
    assert math.isclose(total, 13.0)


@pytest.mark.parametrize(
    "bounds", [tallies.SHORT_S, tallies.LONG_S, tallies.COUNTS]
)
def test_bounds_increase(bounds) -> None:
    assert list(bounds) == sorted(set(bounds))


def test_timings_of_many_threads() -> None:
    timings = tallies.Timings((1.0,))

    def note() -> None:
        for number in range(500):
            timings.note("a", 0.5, number % 5 > 0)

    threads = [threading.Thread(target=note) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert timings.failures() == {"a": 400}
    assert timings.durations()["a"].read()[0][-1] == ("+Inf", 2000.0)


def test_codes_that_nobody_knows_are_one() -> None:
    assert tallies.known(codes.QUEUE_FULL) == "QUEUE_FULL"
    assert tallies.known("X" * 1000) == "other"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a", metrics.COUNTER),
        ("a_total", metrics.GAUGE),
        ("a", "summary"),
    ],
)
def test_definitions_are_checked(name, kind) -> None:
    with pytest.raises(ValueError, match=name):
        metrics.Definition(name, kind, "Help.")


@pytest.mark.parametrize(
    "text",
    [
        "gauge a = b\nHelp.\n",
        "gauge a\n    Help.\n",
        "gauge a{} = b\n    Help.\n",
        "gauge a = b\n    Help.\nmore",
    ],
)
def test_tables_are_checked(text) -> None:
    with pytest.raises(ValueError, match="table"):
        metrics.table(text)


def test_a_page_is_what_its_rows_read() -> None:
    timings = tallies.Timings((1.0,))
    timings.note("x", 2.0, False)
    source = types.SimpleNamespace(done={"a": 3}, timings=timings)
    told = _told(lambda page: page.fill(DEFINITIONS, source, here=True))
    assert told["t_done_total", "a"] == 3
    assert told["t_here", ""] == 1
    assert told["t_seconds_bucket", "x 1.0"] == 0
    assert told["t_seconds_count", "x"] == 1
    assert told["t_seconds_sum", "x"] == 2
    assert told["t_lost_total", "x"] == 1
    assert next(name for name, _ in told) == "fpgapool_build_info"
    assert HERE.help == "Here, and nowhere else."


def test_one_page_of_several_services() -> None:
    told = _told(
        lambda page: page.put(DONE, 1, "a"),
        lambda page: page.fill([DONE], {}, "b", done=2),
    )
    assert (told["t_done_total", "a"], told["t_done_total", "b"]) == (1, 2)


def test_what_fails_does_not_hide_the_rest(caplog) -> None:
    told = _told(
        lambda page: page.fill([DONE], None), lambda page: page.put(HERE, 1)
    )
    assert told["t_here", ""] == 1
    assert "Cannot read some of the metrics" in caplog.text


@pytest.fixture
def conf():
    """Give a configuration whose overrides end with the test."""
    made = cfg.ConfigOpts()
    fpgapool_conf.register_opts(made)
    made([], default_config_files=[], default_config_dirs=[])
    yield made
    for name in ("conductor_port", "cert_file", "key_file", "client_ca_file"):
        made.clear_override(name, group="metrics")


def _endpoint(conf, port: int | None, **options) -> metrics.Endpoint:
    conf.set_override("conductor_port", port, group="metrics")
    return metrics.Endpoint(
        conf,
        "conductor_port",
        DEFINITIONS,
        lambda page: page.put(HERE, 1),
        **options,
    )


def test_without_a_port_nothing_listens(conf) -> None:
    endpoint = _endpoint(conf, None)
    endpoint.start()
    assert endpoint.port is None
    endpoint.stop()


def test_an_endpoint_serves_until_it_is_stopped(conf) -> None:
    endpoint = _endpoint(conf, 0)
    begun = threads.NewThreads()
    endpoint.start()
    port = endpoint.port
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=30) as response:
        assert "t_here 1.0" in response.read().decode()
    endpoint.stop()
    # That of the connection may be about to.
    waiting.wait_until(lambda: begun.count() == 0, "its threads end")
    with socket.socket() as again:
        assert again.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_that_is_taken_is_named(conf) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        endpoint = _endpoint(conf, port)
        with pytest.raises(
            exception.ConfigurationError,
            match=r"conductor_port: cannot listen on 127\.0\.0\.1 "
            rf"port {port}: Address",
        ):
            endpoint.start()
        # As after any error at the start.
        endpoint.stop()


def test_only_this_machine_is_told_by_default(conf) -> None:
    assert conf.metrics.listen_address == "127.0.0.1"
    ports = ("conductor_port", "agent_port", "api_port")
    assert all(conf.metrics[name] is None for name in ports)


def _secure(conf, pair: certificates.Pair, **options: object) -> None:
    files = {
        "cert_file": str(pair.certificate_path),
        "key_file": str(pair.key_path),
        **options,
    }
    for name, value in files.items():
        conf.set_override(name, value, group="metrics")


def _scrape(
    port: int, context: ssl.SSLContext
) -> tuple[http.client.HTTPSConnection, bytes]:
    """Return a connection that is open, and whose certificate it has."""
    connection = http.client.HTTPSConnection(
        "127.0.0.1", port, timeout=30, context=context
    )
    connection.request("GET", "/metrics")
    shown = connection.sock.getpeercert(binary_form=True)
    assert "t_here 1.0" in connection.getresponse().read().decode()
    return connection, hashlib.sha256(shown).digest()


def test_metrics_by_tls_with_a_certificate_that_changes(
    conf, tmp_path
) -> None:
    authority = certificates.Authority(tmp_path, "ca")
    first = authority.issue("metrics")
    _secure(conf, first)
    endpoint = _endpoint(conf, 0)
    endpoint.start()
    try:
        context = ssl.create_default_context(cafile=str(authority.path))
        assert _scrape(endpoint.port, context)[1] == first.sha256
        second = authority.issue("metrics")
        assert _scrape(endpoint.port, context)[1] == second.sha256
        with pytest.raises(OSError):
            urllib.request.urlopen(
                f"http://127.0.0.1:{endpoint.port}/metrics", timeout=30
            )
    finally:
        endpoint.stop()


def test_metrics_for_clients_with_a_certificate_only(conf, tmp_path) -> None:
    authority = certificates.Authority(tmp_path, "ca")
    _secure(
        conf, authority.issue("metrics"), client_ca_file=str(authority.path)
    )
    endpoint = _endpoint(conf, 0)
    endpoint.start()
    try:
        client = authority.issue("prometheus")
        _scrape(endpoint.port, client.client_context())
        nobody = ssl.create_default_context(cafile=str(authority.path))
        with pytest.raises(OSError):
            _scrape(endpoint.port, nobody)
    finally:
        endpoint.stop()


@pytest.mark.parametrize(
    "options",
    [
        {"cert_file": None},
        {"key_file": None},
        {"cert_file": None, "key_file": None, "client_ca_file": "ca.pem"},
        {"client_ca_file": "/no/such/file"},
    ],
)
def test_half_a_certificate_is_an_error(conf, tmp_path, options) -> None:
    pair = certificates.Authority(tmp_path, "ca").issue("metrics")
    _secure(conf, pair, **options)
    endpoint = _endpoint(conf, 0)
    with pytest.raises(exception.ConfigurationError, match="cert_file"):
        endpoint.start()


@pytest.mark.parametrize("secure", cases.first(True, False))
def test_connections_that_say_nothing_keep_nobody_out(
    conf, tmp_path, secure
) -> None:
    """They take no more than a few threads, and those who ask are served."""
    context = None
    if secure:
        pair = certificates.Authority(tmp_path, "ca").issue("metrics")
        _secure(conf, pair)
        context = pair.client_context()
    endpoint = _endpoint(conf, 0)
    endpoint.start()
    begun = threads.NewThreads()
    silent = []
    try:
        address = ("127.0.0.1", endpoint.port)
        for _ in range(4 * scraping.MAX_CONNECTIONS):
            silent.append(socket.create_connection(address, 30))
        scheme = "https" if secure else "http"
        url = f"{scheme}://127.0.0.1:{endpoint.port}/metrics"
        with urllib.request.urlopen(
            url, timeout=30, context=context
        ) as response:
            assert "t_here 1.0" in response.read().decode()
        waiting.wait_until(
            lambda: begun.count() <= scraping.MAX_CONNECTIONS,
            "threads of those that were cut have ended",
        )
    finally:
        for one in silent:
            one.close()
        endpoint.stop()


@pytest.mark.security
@pytest.mark.parametrize(
    ("error", "pauses"),
    [(errno.EMFILE, 1), (errno.ENOMEM, 1), (errno.EAGAIN, 0)],
)
def test_who_cannot_be_accepted_is_tried_later(
    monkeypatch, error, pauses
) -> None:
    """Else the thread would do nothing else."""
    slept: list[float] = []
    monkeypatch.setattr(scraping.time, "sleep", slept.append)
    server = scraping.Server(("127.0.0.1", 0), lambda *_: [])
    with server, mock.patch.object(server, "socket") as listener:
        listener.accept.side_effect = OSError(error, os.strerror(error))
        # As the server does it for each that it finds there.
        server._handle_request_noblock()
    server.socket.close()
    assert len(slept) == pauses
