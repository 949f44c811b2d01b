# SPDX-License-Identifier: Apache-2.0

"""The commands of doc/source/install/install.rst, run as they stand there."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

from tests.harness import pages
from tests.harness import processes
from tests.harness import waiting
from tests.services import openstack
from tests.services import process

# In the gate: what it leads to, in test_api.py.
pytestmark = pytest.mark.long

PAGE = openstack.ROOT / "doc" / "source" / "install" / "install.rst"
MINISTACK = openstack.ROOT / "tools" / "ministack"
DATA_BYTES = 1_000_000
# Generous: they cost time only where something is wrong.
START_LIMIT_S = 120
PAGE_LIMIT_S = 250


def page_commands() -> str:
    """Return what the page tells users to paste."""
    return "\n".join(pages.shell_blocks(PAGE))


@dataclasses.dataclass(frozen=True)
class Checkout:
    """A directory that looks to the page's commands like a checkout.

    :param workspace: ends what is left if this run is killed.
    """

    path: pathlib.Path
    workspace: process.Workspace

    @property
    def servers(self) -> pathlib.Path:
        """Where ``tools/ministack`` keeps its servers."""
        return self.path / "ministack"

    @property
    def pool(self) -> pathlib.Path:
        """What the page writes."""
        return self.path / "pool"

    def make(self) -> None:
        """Fill it; its ``tools/ministack`` has a state of its own."""
        (self.path / "tools").mkdir(parents=True)
        (self.path / ".venv").symlink_to(openstack.ROOT / ".venv")
        tool = self.path / "tools" / "ministack"
        tool.write_text(
            "#!/bin/bash\n"
            f"exec {shlex.quote(str(MINISTACK))} "
            f'"$@" {shlex.quote(f"--state={self.servers}")}\n'
        )
        tool.chmod(0o755)

    def environment(self) -> dict[str, str]:
        """Return what the user's shell knows."""
        return {
            "PATH": process.SEARCH_PATH,
            "LANG": "C.UTF-8",
            "HOME": str(self.path),
            "API_PORT": str(process.free_port()),
            # Processes that run tests side by side share the ports.
            **{
                name: value
                for name, value in os.environ.items()
                if name.startswith("PYTEST_XDIST")
            },
        }

    def ministack(self, *arguments: str) -> None:
        """Run its ``tools/ministack``."""
        result = subprocess.run(
            [self.path / "tools" / "ministack", *arguments],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=START_LIMIT_S,
            check=False,
        )
        assert result.returncode == 0, result.stdout

    def pids(self) -> dict[str, int]:
        """Return the processes that ``tools/ministack`` started."""
        return {
            path.stem: json.loads(path.read_text())["pid"]
            for path in (self.servers / "run").glob("*.json")
        }

    def run(self, commands: str) -> str:
        """Paste commands into a shell, which ends at the first that fails."""
        with subprocess.Popen(
            ["bash", "-eux", "-o", "pipefail", "-c", commands],
            cwd=self.path,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as shell:
            self.workspace.watch("install page", shell.pid)
            try:
                printed, _ = shell.communicate(timeout=PAGE_LIMIT_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
                self.workspace.forget("install page", shell.pid)
        assert shell.returncode == 0, printed + self.logs()
        return printed

    def logs(self) -> str:
        """Return what the pool's processes printed."""
        return "".join(
            f"\n{path.name}:\n{path.read_text()}"
            for path in self.pool.glob("*.log")
        )


@pytest.fixture
def checkout(
    service_workspace: process.Workspace,
) -> Iterator[Checkout]:
    """Give a checkout whose servers run; the page finds them running.

    They are started beforehand so that they are watched from then on.
    """
    # Not tmp_path: a server that runs as another user has to enter it.
    made = Checkout(service_workspace.path / "install", service_workspace)
    made.make()
    watched: dict[str, int] = {}
    try:
        made.ministack("up", "--services=keystone")
        watched = made.pids()
        for name, pid in watched.items():
            service_workspace.watch(name, pid)
        yield made
    finally:
        processes.kill_children(made.pool / "state")
        made.ministack("down", "--wipe")
        for name, pid in watched.items():
            service_workspace.forget(name, pid)


def test_page_leads_from_an_empty_keystone_to_an_encrypted_file(
    checkout: Checkout,
) -> None:
    printed = checkout.run(page_commands())

    assert "CLOSED" in printed
    data = (checkout.pool / "data").read_bytes()
    assert len(data) == DATA_BYTES
    assert decrypted(checkout.pool) == data
    assert not checkout.servers.exists()
    waiting.wait_until(
        lambda: not processes.find_workers(checkout.pool / "state"),
        "the workers end after their agent",
    )


def decrypted(pool: pathlib.Path) -> bytes:
    """Return what the page has encrypted, by other means than the page's."""
    key = bytes.fromhex((pool / "key.hex").read_text())
    counter = bytes.fromhex((pool / "data.enc.iv").read_text().strip())
    decryptor = ciphers.Cipher(
        algorithms.AES(key), modes.CTR(counter)
    ).decryptor()
    encrypted = (pool / "data.enc").read_bytes()
    return decryptor.update(encrypted) + decryptor.finalize()
