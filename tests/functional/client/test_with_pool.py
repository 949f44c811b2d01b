#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Sessions that lose their slot in a whole pool."""

import hashlib
import json
import os
import pathlib
import random
import signal

import pytest

from fpgapool import client
from tests.functional.allinone import harness
from tests.functional.client.test_with_worker import IV
from tests.functional.client.test_with_worker import KEY
from tests.functional.client.test_with_worker import _encrypted
from tests.harness import cases

PARAMS = {"key": KEY, "iv": IV}
PIECE_BYTES = 100_000


@pytest.fixture
def pool():
    """A pool of two hosts and two slots."""
    with harness.running_pool() as running:
        yield running


def _kill_worker(pool: harness.Pool, device: str, slot: int) -> None:
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"fpgapool.agent.worker" not in line:
            continue
        settings = json.loads(line[-2])
        if (settings["device"], settings["slot"]) == (device, slot) and (
            settings["control_socket"].startswith(str(pool.run_dir))
        ):
            os.kill(int(entry.name), signal.SIGKILL)
            return
    raise AssertionError("there is no such worker")


@pytest.mark.parametrize(
    ("door", "local"), cases.first(("node1", True), ("node2", False))
)
def test_session_outlives_its_workers(pool, door, local):
    data = random.Random(door).randbytes(20 * PIECE_BYTES)
    output = b""
    with client.acc_open(
        "aes",
        len(data),
        params=PARAMS,
        front_door=pool.front_door(door),
        timeout_s=harness.LIMIT_S,
    ) as session:
        session_id = session.session_id
        for start in range(0, len(data), PIECE_BYTES):
            session.pin[:PIECE_BYTES] = data[start : start + PIECE_BYTES]
            if start in (5 * PIECE_BYTES, 12 * PIECE_BYTES):
                _kill_worker(pool, session.device, session.slot)
            output += session.run(PIECE_BYTES, timeout_s=harness.LIMIT_S)
        output += session.finish(timeout_s=harness.LIMIT_S)
    assert output == _encrypted(data)
    assert (session.session_id, session.reopens) == (session_id, 2)
    assert session.local == local


@pytest.mark.long
def test_digest_is_started_over(pool):
    data = random.Random(1).randbytes(100_000_000)
    views = []
    killed = []

    def progress(done_bytes, _total_bytes):
        if done_bytes and not killed:
            killed.append(done_bytes)
            _kill_worker(pool, views[-1].device, views[-1].slot)

    output, report = client.run_buffer(
        "sha",
        data,
        front_door=pool.front_door(),
        on_state=views.append,
        progress=progress,
        timeout_s=harness.LIMIT_S,
    )
    assert output == hashlib.sha256(data).digest()
    assert report.restarts == 1
