# SPDX-License-Identifier: Apache-2.0

"""The REST API of an all-in-one pool."""

from __future__ import annotations

import socket
import subprocess

import pytest

from tests.functional.allinone import harness as allinone

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


def test_a_port_that_there_is_not() -> None:
    result = _run("--api-port=65536")
    assert result.returncode == 2
    assert "not a port number" in result.stdout


def test_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = _run(f"--api-port={taken.getsockname()[1]}")
    assert result.returncode == 1
    assert "in use" in result.stdout
