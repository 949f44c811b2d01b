# SPDX-License-Identifier: Apache-2.0

"""Running Spark's driver and executors, and a pool beside them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import sys
import typing
from collections.abc import Callable
from collections.abc import Iterator
from unittest import mock

import openstack
import pyspark
from pyspark import sql

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.vocabulary import states
from tests.functional.allinone import harness

#: Processes, each with one core and so much memory in MiB.
MASTER = "local-cluster[2,1,768]"
#: Starts faster, and leaves more of the processors to others.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: What tests of speculation need; the others must not mind it.
SETTINGS = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.maxResultSize": "8m",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.sql.shuffle.partitions": "4",
}
ENVIRONMENT = {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_LOCAL_HOSTNAME": "localhost",
}
ROOT = pathlib.Path(__file__).parents[2]
#: Tells of clients of groups.
CONFIGURATION = """
[oslo_messaging_notifications]
driver = log
"""

_ATTACHED = re.compile(
    r'"group.client.attach".*?"client_id": "([^"]+)"', re.DOTALL
)
_EXECUTOR = b"CoarseGrainedExecutorBackend"


class Cluster:
    """Spark with two executors.

    :param directory: for the pools that executors find, and Spark's files.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.run_dir = directory / "run"
        with mock.patch.dict(os.environ, ENVIRONMENT):
            builder = sql.SparkSession.builder.master(MASTER)
            settings = {
                **SETTINGS,
                "spark.local.dir": str(directory / "local"),
                "spark.executorEnv.FPGAPOOL_SOCKET": str(
                    self.run_dir / "front-door.sock"
                ),
                "spark.executorEnv.PYTHONPATH": str(ROOT),
            }
            for name, value in settings.items():
                builder = builder.config(name, value)
            self.session = builder.getOrCreate()
        self.context: pyspark.SparkContext = self.session.sparkContext

    def executors(self) -> list[int]:
        """Return the processes of this driver's executors."""
        driver = f"@{self.context.getConf().get('spark.driver.host')}:"
        port = self.context.getConf().get("spark.driver.port")
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    line = (entry / "cmdline").read_bytes()
                    if (
                        _EXECUTOR in line
                        and f"{driver}{port}".encode() in line
                    ):
                        found.append(int(entry.name))
        return sorted(found)

    def kill_executor(self) -> None:
        """Kill the Java of one of them, as if it had run out of memory."""
        os.kill(self.executors()[0], signal.SIGKILL)

    def close(self) -> None:
        """End the executors and the driver's Java."""
        gateway = pyspark.SparkContext._gateway
        application = self.context.applicationId
        self.session.stop()
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(harness.LIMIT_S)
            pyspark.SparkContext._gateway = None
            pyspark.SparkContext._jvm = None
        # Spark keeps the executors' directories beside itself.
        work = pathlib.Path(pyspark.__file__).parent / "work" / application
        shutil.rmtree(work, ignore_errors=True)


class Pool(harness.Site):
    """A pool whose front door the executors find."""

    def __init__(
        self, pool: harness.Pool, url: str, state_dir: pathlib.Path
    ) -> None:
        super().__init__(pool, url)
        self._state_dir = state_dir
        self._seen: set[str] = set()
        cloud = openstack.connect(
            load_yaml_config=False,
            load_envvars=False,
            auth_type="admin_token",
            auth={
                "endpoint": f"{url}/v1",
                "token": "noauth:default:admin,manager,member,reader",
            },
        )
        self.proxy: typing.Any = fpgapool_service.proxy_of(cloud)

    def sessions(self) -> list[typing.Any]:
        """Return the sessions that there have been since the last call."""
        found = [
            one for one in self.proxy.sessions() if one.id not in self._seen
        ]
        self._seen.update(one.id for one in found)
        return found

    def attached(self) -> int:
        """Return how many clients of groups there have been."""
        logs = [path.read_text() for path in self._state_dir.rglob("*.log")]
        return len(set(_ATTACHED.findall("".join(logs))))

    def held(self) -> list[str]:
        """Return the slots that are not idle."""
        return [
            f"{one.device_name} {one.number} {one.state}"
            for one in self.proxy.slots()
            if one.state != states.SLOT_IDLE
        ]


@contextlib.contextmanager
def started(
    action: Callable[[], typing.Any],
) -> Iterator[concurrent.futures.Future[typing.Any]]:
    """Run an action in the background."""
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        yield threads.submit(action)


@contextlib.contextmanager
def pool(run_dir: pathlib.Path, *options: str) -> Iterator[Pool]:
    """Give a pool of four slots on two hosts.

    :param run_dir: for its sockets; other files are beside it.
    """
    state_dir = run_dir.with_name("state")
    config = run_dir.with_name("pool.conf")
    config.write_text(CONFIGURATION)
    pool = harness.Pool(
        run_dir,
        *("--hosts=2", "--boards=2", "--slots=2", "--api-port=0"),
        *(f"--config-file={config}", f"--state-dir={state_dir}"),
        *options,
    )
    try:
        yield Pool(pool, pool.wait_until_ready()["api_url"], state_dir)
    finally:
        pool.close()
        shutil.rmtree(state_dir, ignore_errors=True)
