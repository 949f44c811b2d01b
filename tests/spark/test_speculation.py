# SPDX-License-Identifier: Apache-2.0

"""Partitions that Spark attempts twice at once.

Spark does so on two hosts only, which ``local-cluster`` does not have: these
are workers at two addresses of this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator

import pyspark

from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.harness import waiting
from tests.spark import cluster
from tests.spark import speculation

_LIMIT_S = 400
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_ADDRESSES = ("127.0.0.1", "127.0.0.2")
_HOME = pathlib.Path(pyspark.__file__).parent


@contextlib.contextmanager
def _daemon(name: str, address: str, *arguments: str) -> Iterator[None]:
    process = subprocess.Popen(
        [
            *(str(_HOME / "bin" / "spark-class"), name),
            *("--host", address, "--webui-port", "0", *arguments),
        ],
        env={
            **os.environ,
            **cluster.ENVIRONMENT,
            "SPARK_HOME": str(_HOME),
            "SPARK_LOCAL_IP": address,
            "SPARK_LOCAL_HOSTNAME": address,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": cluster.JAVA_OPTIONS,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(harness.LIMIT_S)


@contextlib.contextmanager
def _two_hosts(directory: pathlib.Path) -> Iterator[str]:
    """Give the address of a master with two workers."""
    with socket.create_server((_ADDRESSES[0], 0)) as listener:
        port = listener.getsockname()[1]
    master = f"spark://{_ADDRESSES[0]}:{port}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            _daemon(_MASTER, _ADDRESSES[0], "--port", str(port))
        )
        for address in _ADDRESSES:
            stack.enter_context(
                _daemon(
                    *(_WORKER, address, "--cores", "1", "--memory", "768m"),
                    *("--work-dir", str(directory / address), master),
                )
            )
        yield master


def test_a_partition_that_is_attempted_twice() -> None:
    with harness.short_directory() as directory:
        run_dir = directory / "run"
        settings = {
            **cluster.SETTINGS,
            "spark.local.dir": str(directory / "local"),
            "spark.executorEnv.FPGAPOOL_SOCKET": str(
                run_dir / "front-door.sock"
            ),
            "spark.executorEnv.PYTHONPATH": str(cluster.ROOT),
        }
        with (
            cluster.pool(run_dir, "--unlimited") as pool,
            _two_hosts(directory) as master,
        ):
            done = subprocess.run(
                [
                    *(sys.executable, "-m", speculation.__name__, master),
                    str(directory),
                    *(f"{name}={value}" for name, value in settings.items()),
                ],
                env={**os.environ, **cluster.ENVIRONMENT},
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
            )
            assert done.returncode == 0, done.stderr[-4000:]
            waiting.wait_until(
                lambda: not pool.held(),
                lambda: f"idle slots: {pool.held()}",
                limit_s=15.0,
            )
            sessions = pool.sessions()
        assert sorted(path.name for path in directory.glob("attempt-*")) == [
            "attempt-0",
            "attempt-1",
        ]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "right": True,
        "fallbacks": 0,
    }
    # Both attempts were served, and the result has the records once.
    assert [one.reason for one in sessions] == [codes.OK] * (
        speculation.PARTITIONS + 1
    )
