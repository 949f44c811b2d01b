# SPDX-License-Identifier: Apache-2.0

"""From an error to the log lines of all services; reports of processes."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool import client
from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import processes
from tests.harness import waiting
from tests.services import process

API, CONDUCTOR, AGENT, WORKER = "api", "conductor", "agent", "worker"

TERMINAL = ("FAILED", "EXPIRED", "CANCELLED", "CLOSED")

#: An ID as other services of OpenStack give it.
GLOBAL_ID = "req-01234567-89ab-cdef-0123-456789abcdef"


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    """Give a pool that ends idle sessions soon."""
    return make_cloud(
        clouds.HostPlan("board", slots=1),
        options={"conductor": {"idle_timeout_s": 1}},
    )


@pytest.fixture(scope="module")
def api(
    cloud: clouds.Cloud, service_workspace: process.Workspace
) -> Iterator[api_harness.Server]:
    name = f"{cloud.conductor.name}-api"
    server = api_harness.Server(name, cloud, service_workspace)
    _trigger(server).touch()
    with server.config_path.open("a") as file:
        file.write(
            f"[oslo_reports]\nfile_event_handler = {_trigger(server)}\n"
        )
    server.start()
    yield server
    server.kill()


def _trigger(server: api_harness.Server) -> pathlib.Path:
    """Return the file whose change makes the API report."""
    return server.directory / "report"


class Logs:
    """The logs of a pool's services."""

    def __init__(self, cloud: clouds.Cloud, api: api_harness.Server) -> None:
        board = cloud.hosts["board"]
        self.paths = {
            str(daemon.log_path): name
            for name, daemon in (
                (API, api),
                (CONDUCTOR, cloud.conductor),
                (AGENT, board.agent),
            )
        }

    def trace(self, request_id: str) -> dict[str, list[str]]:
        """Run the command; :returns: the lines by the service's name."""
        done = subprocess.run(
            [
                *(sys.executable, "-m", "fpgapool.cmd.manage"),
                *("trace", request_id, *self.paths),
            ],
            capture_output=True,
            text=True,
            timeout=waiting.COMMAND_LIMIT_S,
            cwd=processes.ROOT,
            check=False,
        )
        found: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            path, _, text = line.partition(": ")
            # Workers log with their agent.
            name = WORKER if "[board0.0 " in text else self.paths[path]
            found.setdefault(name, []).append(text)
        return found

    def await_lines(
        self, request_id: str, *names: str
    ) -> dict[str, list[str]]:
        """Wait until these services have logged lines of a request."""
        found: dict[str, list[str]] = {}

        def complete() -> bool:
            found.update(self.trace(request_id))
            return found.keys() >= set(names)

        waiting.wait_until(
            complete, lambda: f"{names} have {request_id}: {found}"
        )
        return found


@pytest.fixture(scope="module")
def logs(cloud: clouds.Cloud, api: api_harness.Server) -> Logs:
    return Logs(cloud, api)


def _fail(
    front_door: str | client.PoolApi, state: Callable[[str], str]
) -> client.FpgapoolError:
    """Use a session that the pool has ended; return the error."""
    session = client.acc_open("copy", 1, front_door=front_door)
    waiting.wait_until(
        lambda: state(session.session_id) in TERMINAL, "it has ended"
    )
    with pytest.raises(client.FpgapoolError) as caught, session:
        session.run(1)
    assert caught.value.code == "IDLE_TIMEOUT"
    assert caught.value.request_id == session.request_id
    assert str(caught.value).endswith(f"({session.request_id})")
    return caught.value


def test_an_error_of_the_library(cloud: clouds.Cloud, logs: Logs) -> None:
    error = _fail(cloud.hosts["board"].socket_path(), cloud.state)
    found = logs.await_lines(error.request_id, CONDUCTOR, AGENT, WORKER)
    for lines in found.values():
        assert any("IDLE_TIMEOUT" in line for line in lines)


def test_an_error_through_the_api(
    cloud: clouds.Cloud, api: api_harness.Server, logs: Logs
) -> None:
    def state(session_id: str) -> str:
        answer = api.show(session_id, api_harness.ADMIN_TOKEN)
        return str(answer.session["state"])

    error = _fail(client.PoolApi.at(f"http://{api.address}"), state)
    logs.await_lines(error.request_id, API, CONDUCTOR, AGENT, WORKER)


def test_an_answer_of_the_api(
    cloud: clouds.Cloud, api: api_harness.Server, logs: Logs
) -> None:
    """The ID of the request that the API names is also the session's."""
    answer = api.open(connect_timeout_s=1)
    request_id = answer.headers["x-openstack-request-id"]
    assert answer.session["request_id"] == request_id
    api.wait(answer.session, *TERMINAL)
    logs.await_lines(request_id, API, CONDUCTOR, AGENT, WORKER)


def test_an_action_of_several_services(
    cloud: clouds.Cloud, api: api_harness.Server, logs: Logs
) -> None:
    """The ID that another service gives leads to all lines, too."""
    answer = api.open(
        request_id="mine",
        connect_timeout_s=1,
        headers={"X-OpenStack-Request-ID": GLOBAL_ID},
    )
    api.wait(answer.session, *TERMINAL)
    found = logs.await_lines(GLOBAL_ID, API, CONDUCTOR, AGENT)
    assert any(f"[{GLOBAL_ID} mine " in line for line in found[CONDUCTOR])
    assert any(f"[{GLOBAL_ID} mine " in line for line in found[AGENT])
    # Workers know only the session's.
    logs.await_lines("mine", CONDUCTOR, AGENT, WORKER)


def test_an_error_of_the_command(
    cloud: clouds.Cloud, logs: Logs, tmp_path: pathlib.Path
) -> None:
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "fpgapool.cmd.run", "copy", "--json"),
            *("--in", "-", "--size-bytes", "9"),
            *("--out", str(tmp_path / "out")),
            *("--socket", cloud.hosts["board"].socket_path()),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=processes.ROOT,
    ) as command:
        # It gets no input, so its session is idle.
        assert command.stdout is not None
        error = json.loads(command.stdout.read())["error"]
    assert error["code"] == "IDLE_TIMEOUT"
    logs.await_lines(error["request_id"], CONDUCTOR, AGENT, WORKER)


def test_a_refusal_at_the_front_door(cloud: clouds.Cloud, logs: Logs) -> None:
    with pytest.raises(client.FpgapoolError) as caught:
        client.acc_open(
            "nothing", 1, front_door=cloud.hosts["board"].socket_path()
        )
    request_id = caught.value.request_id
    assert request_id is not None
    found = logs.await_lines(request_id, AGENT)
    assert any("UNKNOWN_ACCELERATOR" in line for line in found[AGENT])


@pytest.mark.security
def test_ids_forge_no_lines(cloud: clouds.Cloud, logs: Logs) -> None:
    forged = "req-1\n2026-01-01 00:00:00.000 1 INFO forged [x] line"
    with cloud.hosts["board"].door() as door:
        for members in (
            {"op": "open", "request_id": forged},
            {"op": forged, "request_id": forged},
            {
                "op": "open",
                "request_id": "honest",
                "accelerator": "copy",
                "size_bytes": 0,
                "carrier": {
                    "global_request_id": forged,
                    "traceparent": forged,
                },
            },
        ):
            operation = members.pop("op")
            with pytest.raises(doors.Refused):
                door.request(operation, **members)
    logs.await_lines("honest", AGENT)
    assert not any(
        line.startswith("2026-01-01 00:00:00.000 1")
        for path in logs.paths
        for line in pathlib.Path(path).read_text().splitlines()
    )


def test_services_report_what_they_do(
    cloud: clouds.Cloud, api: api_harness.Server
) -> None:
    """Their processes go on, and the reports have no passwords."""
    board = cloud.hosts["board"]
    workers = board.workers()
    for daemon in (cloud.conductor, board.agent):
        # As "systemctl kill" does: to all processes of the unit.
        for pid in (daemon.pid, *(one.pid for one in workers)):
            os.kill(pid, signal.SIGUSR2)
        daemon.wait_for_log("Guru Meditation")
        daemon.wait_for_log("threads = ")
        assert daemon.running
    _check_report(cloud, cloud.conductor, "leads = True")
    _check_report(cloud, board.agent, "board0.0 = ")
    assert board.workers() == workers
    assert api.is_led()
    os.utime(_trigger(api), (2**31, 2**31))
    api.wait_for_log("threads = ")
    _check_report(cloud, api, "waiting_requests = 0")


def _check_report(
    cloud: clouds.Cloud, daemon: processes.Daemon, figure: str
) -> None:
    report = daemon.present_log()
    assert figure in report
    assert "transport_url = ***" in report
    for url in (cloud.transport_url, cloud.database_url):
        assert url not in report
