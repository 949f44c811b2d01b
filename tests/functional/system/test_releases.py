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

# In the gate: tests/unit/recorded.
pytestmark = pytest.mark.long

CHUNK = clouds.CHUNK_BYTES
LIMIT_S = 60
#: What prints where its code is, and the versions of the remote calls.
VERSIONS = """\
from fpgapool.rpcapi import agent, conductor
print(agent.__file__, agent.VERSION, conductor.VERSION)
"""


def git(*arguments: str) -> bytes:
    return subprocess.run(
        ["git", *arguments],
        cwd=processes.ROOT,
        check=True,
        stdout=subprocess.PIPE,
        timeout=LIMIT_S,
    ).stdout


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give a directory with the product of the release before."""
    # The oldest commit of a shallow clone adds all files.
    if git("rev-parse", "--is-shallow-repository").strip() != b"false":
        pytest.fail(
            "this clone is shallow: run 'git fetch --unshallow --tags'"
        )
    lines = pathlib.Path(__file__).with_name("old_release").read_text()
    name = lines.splitlines()[-1]
    path = name.removeprefix("added:")
    if path != name:
        found = git("log", "--diff-filter=A", "--format=%H", "--", path)
        name = found.decode().split()[-1]
    tree = tmp_path_factory.mktemp("old")
    subprocess.run(
        ["tar", "-x", "-C", str(tree)],
        input=git("archive", name, "fpgapool"),
        check=True,
        timeout=LIMIT_S,
    )
    return tree


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
        trees={module: old_tree},
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
