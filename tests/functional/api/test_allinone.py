# SPDX-License-Identifier: Apache-2.0

"""The REST API of an all-in-one pool."""

from __future__ import annotations

import random
import socket
import subprocess
import urllib.parse

import pytest

from tests.functional.allinone import harness as allinone
from tests.functional.api import harness

# In the gate: allinone/test_api_door.py.
pytestmark = pytest.mark.long


def _run(*options: str) -> subprocess.CompletedProcess:
    with allinone.short_directory() as run_dir:
        return subprocess.run(
            allinone.command(
                "allinone", f"--run-dir={run_dir}", *allinone.SMALL, *options
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=allinone.LIMIT_S,
        )


def test_a_session_by_the_api_alone() -> None:
    """Opened, used and closed; requests that wait do not delay the end."""
    data = random.Random(1).randbytes(10_000)
    with allinone.short_directory() as run_dir:
        pool = allinone.Pool(run_dir, *allinone.SMALL, "--api-port=0")
        try:
            url = urllib.parse.urlparse(pool.wait_until_ready()["api_url"])
            assert url.hostname == "127.0.0.1"
            body = {
                "session": {"accelerator": "copy", "claimed_bytes": 10_000}
            }
            answer = harness.ask(url.netloc, "POST", "/v1/sessions", "", body)
            session = answer.session
            assert session["project_id"] == "default"
            path = f"/v1/sessions/{session['id']}"
            while session["state"] != "READY":
                poll = f"{path}?wait_s=20&revision={session['revision']}"
                session = harness.ask(url.netloc, "GET", poll, "").session
            client = harness.connect(session)
            assert client.run(data) == data
            client.close_session()
            assert harness.ask(url.netloc, "DELETE", path, "").status == 204
        finally:
            pool.close()
    assert pool.process.returncode == 0
    assert f"REST API, open to all users of this host: {url.geturl()}" in (
        pool.output
    )
    assert f"live page: {url.geturl()}/ui/" in pool.output
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((url.hostname, url.port or 0))


def test_a_port_that_there_is_not() -> None:
    result = _run("--api-port=65536")
    assert result.returncode == 2
    assert "not a port number" in result.stdout


def test_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = _run(f"--api-port={taken.getsockname()[1]}")
    assert result.returncode == 1
    assert "in use" in result.stdout
