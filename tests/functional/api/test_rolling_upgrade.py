# SPDX-License-Identifier: Apache-2.0

"""An operator gives boards another shape, one by one, while the pool serves.

The steps are those of ``doc/source/install/upgrade.rst``, "Boards".
"""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
import sys

import pytest

from fpgapool import client
from fpgapool.agent.supervision import workers
from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import programs
from tests.harness import waiting

CHUNK = clouds.CHUNK_BYTES
#: How many chunks a stream has, and how many have gone when it has begun.
CHUNKS, BEGUN_CHUNKS = 40, 4
ADMIN = harness.ADMIN_TOKEN
COMMAND_LIMIT_S = 120

#: What some accelerators of the library need; "aes" fits all shapes.
SHAPES = {
    "copy": ["small-1"],
    "sobel": ["small-2", "small-3"],
    "sha": ["small-3", "large-2"],
    "fft": ["large-2"],
}


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    """Two boards of different shapes, and a host of programs."""
    made: clouds.Cloud = make_cloud(
        clouds.HostPlan("alpha", slots=2, shape="small-1"),
        clouds.HostPlan("beta", slots=2, shape="large-1"),
        clouds.HostPlan("compute", slots=0),
    )
    made.database.upsert_accelerators(
        dataclasses.replace(
            record,
            profile={**record.profile, "shapes": SHAPES[record.name]},
        )
        for record in made.database.accelerators()
        if record.name in SHAPES
    )
    return made


class Board:
    """The only board of a host, as its operator handles it."""

    def __init__(
        self, cloud: clouds.Cloud, api: harness.Server, host: str
    ) -> None:
        self._cloud, self._api = cloud, api
        self.host = cloud.hosts[host]
        self.id = str(self._find("devices")[0]["id"])

    def _find(self, kind: str) -> list[dict]:
        answer = self._api.ask("GET", f"/v1/{kind}", ADMIN)
        found: list[dict] = answer.document[kind]
        return [one for one in found if one["host_name"] == self.host.name]

    def show(self) -> dict:
        return self._find("devices")[0]

    def slots(self) -> list[dict]:
        return sorted(self._find("slots"), key=lambda one: one["number"])

    def set(self, **wish: object) -> None:
        path = f"/v1/devices/{self.id}"
        assert self._api.ask("PATCH", path, ADMIN, wish).status == 200

    def wait_state(self, state: str) -> None:
        waiting.wait_until(
            lambda: self.show()["state"] == state,
            lambda: f"{state}: {self.show()}",
        )

    def drain(self) -> None:
        self.set(state="draining", reason="new shell", drain_deadline_s=0)

    def reprogram(self, shape: str, slots: int = 2) -> None:
        """Give the board another shape while its agent is stopped."""
        host = self.host
        host.agent.stop()
        # As the check does, which comes before and after.
        workers.end_idle(str(host.state_dir), "board0")
        host.plan = dataclasses.replace(host.plan, shape=shape, slots=slots)
        host.write_boards()

    def check(self) -> dict:
        """Check the board as ``fpgapool-manage device check`` does."""
        command = [sys.executable, "-m", "fpgapool.cmd.manage"]
        command += ["--config-file", str(self.host.agent.config_path)]
        command += ["device", "check", "--device", "board0", "-f", "json"]
        command += ["--accelerator", "aes", "--size-mib", "0.1"]
        done = subprocess.run(
            command,
            env=self.host.agent.environment(),
            stdout=subprocess.PIPE,
            timeout=COMMAND_LIMIT_S,
            check=True,
        )
        return json.loads(done.stdout)["devices"][0]

    def start(self, shape: str, slots: int = 2) -> None:
        """Start the agent, and wait for what it reports."""
        self.host.agent.start()

        def shown() -> bool:
            found = self.slots()
            return [one["shape"] for one in found[:slots]] == [
                shape
            ] * slots and all(
                one["fault_reason"] == "not reported" for one in found[slots:]
            )

        waiting.wait_until(shown, lambda: f"{shape}: {self.slots()}")

    def test(self, accelerator: str) -> None:
        """Have the pool test the disabled board's first slot."""
        path = f"/v1/slots/{self.slots()[0]['id']}/test"
        body = {"test": {"accelerator": accelerator}}
        answers = []

        def accepted() -> bool:
            # Its worker may still be starting.
            answers.append(self._api.ask("POST", path, ADMIN, body))
            return answers[-1].status == 202

        waiting.wait_until(accepted, lambda: f"a test: {answers[-1]}")
        waiting.wait_until(
            lambda: self.slots()[0]["programmed"] == accelerator,
            lambda: f"a test: {self.slots()[0]}",
        )
        assert self.slots()[0]["fault_reason"] == ""


def begin(path: str, rng: random.Random) -> programs.Transfer:
    """Start a stream that goes as far as the test lets it."""
    aes = programs.Aes(rng)
    text = rng.randbytes(CHUNKS * CHUNK)
    started = programs.Transfer(path, text, "aes", params=aes.params)
    started.expected = aes.encrypt(text)
    started.run_to(BEGUN_CHUNKS * CHUNK)
    return started


def finish(running: programs.Transfer) -> client.RunReport:
    report = running.finish()
    assert running.output == running.expected
    return report


def serve(api: harness.Server, session: dict) -> None:
    """A session that waited gets its slot; its program needs it no more."""
    api.wait(session, "READY")
    assert api.close(session["id"]) in (200, 204)


def reasons(api: harness.Server, session: dict) -> list[str]:
    """Return why a session waits."""
    found = api.show(session["id"]).session["pending_reasons"]
    return [one["code"] for one in found]


@pytest.fixture
def alpha(cloud, api) -> Board:
    return Board(cloud, api, "alpha")


def test_a_board_changes_its_shape(cloud, api, alpha, rng) -> None:
    """Streams move; jobs wait for the shape that they need."""
    running = begin(cloud.hosts["compute"].socket_path(), rng)
    assert api.open(accelerator="sobel").code == "NO_COMPATIBLE_SLOT"
    alpha.drain()
    waits = api.open(accelerator="copy").session
    assert reasons(api, waits) == ["NO_ENABLED_SLOT"]
    alpha.wait_state("disabled")
    # It has a slot less, too.
    alpha.reprogram("small-2", slots=1)
    assert alpha.check()["shapes"] == ["small-2"]
    running.run_to(2 * BEGUN_CHUNKS * CHUNK)
    alpha.start("small-2", slots=1)
    alpha.test("sobel")
    assert alpha.show()["state"] == "disabled"
    alpha.set(state="enabled")
    serve(api, api.open(accelerator="sobel").session)
    assert reasons(api, waits) == ["NO_COMPATIBLE_SLOT"]
    assert api.open(accelerator="copy").code == "NO_COMPATIBLE_SLOT"
    finish(running)
    # Back to the old shape.
    alpha.drain()
    alpha.wait_state("disabled")
    alpha.reprogram("small-1")
    alpha.start("small-1")
    alpha.set(state="enabled")
    serve(api, waits)
