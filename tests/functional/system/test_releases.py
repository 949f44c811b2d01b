# SPDX-License-Identifier: Apache-2.0

"""Conductors and agents of two releases, as while services are upgraded."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tests.harness import cloud as clouds
from tests.harness import processes
from tests.harness import programs
from tests.harness import releases
from tests.unit import recorded

# In the gate: tests/unit/recorded.
pytestmark = pytest.mark.long

CHUNK = clouds.CHUNK_BYTES
LIMIT_S = 60
RECORDED = "tests/unit/recorded"
#: What prints where its code is, and the versions of the remote calls.
VERSIONS = """\
from fpgapool.rpcapi import agent, conductor
print(agent.__file__, agent.VERSION, conductor.VERSION)
"""


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give a directory with the product of the release before."""
    tree = tmp_path_factory.mktemp("old")
    releases.unpack(tree, "fpgapool", RECORDED)
    return tree


def test_recordings_of_a_release_never_change(old_tree: pathlib.Path) -> None:
    """What was added since is in the recording of the next release."""
    files = [
        file
        for file in (old_tree / RECORDED).glob("*.jsonl")
        if file.name != recorded.NEXT.name
    ]
    assert files
    for file in files:
        then, now = (
            recorded.read(file),
            recorded.read(recorded.HERE / file.name),
        )
        # An agent replaces the workers of another release before it gives
        # them anything to do.
        told = {key: then[key] for key in then if key[0] != "control"}
        assert told == {key: now[key] for key in told}


@pytest.mark.parametrize("old", ["conductor", "agent"])
def test_a_session_while_services_are_upgraded(
    make_cloud, old_tree: pathlib.Path, rng, old: str
) -> None:
    """A session is opened, used and closed, with messages pinned."""
    module = f"fpgapool.cmd.{old}"
    told = subprocess.run(
        [sys.executable, "-c", VERSIONS],
        env={"PYTHONPATH": str(old_tree)},
        cwd=old_tree,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
    )
    path, *versions = told.stdout.split()
    assert old_tree in pathlib.Path(path).parents
    cloud = make_cloud(
        clouds.HostPlan("board", slots=1),
        clouds.HostPlan("compute", slots=0),
        releases={module: processes.Release(sys.executable, old_tree)},
        options={
            "upgrade_levels": dict(
                zip(("agent", "conductor"), versions, strict=True)
            )
        },
    )
    for daemon in cloud.daemons():
        environment = daemon.environment()["PYTHONPATH"]
        assert (environment == str(old_tree)) == (daemon.module == module)
    text = rng.randbytes(8 * CHUNK)
    for host in cloud.hosts.values():
        transfer = programs.Transfer(host.socket_path(), text)
        transfer.run_to(4 * CHUNK)
        cloud.wait_session(transfer.session_id, "ACTIVE")
        transfer.finish()
        assert transfer.output == text
        view = cloud.wait_session(transfer.session_id, "CLOSED")
        assert (view["reason"], view["input_bytes"]) == ("OK", 8 * CHUNK)
