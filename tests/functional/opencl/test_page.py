# SPDX-License-Identifier: Apache-2.0

"""The kernel of the page "OpenCL kernels", built and used as it says there."""

from __future__ import annotations

import os
import pathlib
import re
import struct
import subprocess
import sysconfig
import urllib.parse

import pytest
import yaml

from fpgapool import client
from tests.functional.allinone import harness
from tests.functional.api import harness as api
from tests.harness import pages
from tests.harness import pocl
from tests.harness import waiting

PAGE = pages.CONTRIBUTOR / "opencl-kernels.rst"
FILES = ("scale.cl", "scale.json", "scale.vectors.json")
TRY = "fpgapool-dev try scale.cl"
STEP = re.compile(r"(?m)^(passed|failed|absent)  (\w+) ")


@pytest.fixture
def kernel(tmp_path: pathlib.Path) -> pathlib.Path:
    """Give a directory with the page's files."""
    for name in FILES:
        (tmp_path / name).write_text(pages.code_block(PAGE, name))
    return tmp_path


def shell(
    directory: pathlib.Path, commands: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Have bash run commands, the first failure of which ends it."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=directory,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=waiting.COMMAND_LIMIT_S,
    )


def test_it_is_tried_as_the_page_shows(kernel: pathlib.Path) -> None:
    shown = pages.code_block(PAGE, TRY)
    done = shell(kernel, f"{TRY} --platform='{pocl.PLATFORM}*'")
    assert done.returncode == 0, done.stdout + done.stderr
    assert STEP.findall(done.stdout) == STEP.findall(shown)
    assert len(STEP.findall(shown)) == 8
    verdict = shown.splitlines()[-1].rpartition(";")[0]
    assert f"\n{verdict}; " in done.stdout


@pytest.mark.long
def test_it_is_built_signed_registered_and_used(
    kernel: pathlib.Path,
) -> None:
    (commands,) = pages.shell_blocks(PAGE)
    keys = kernel / "keys"
    keys.mkdir()
    made = shell(
        kernel,
        "openssl genpkey -algorithm ed25519 -out release.pem\n"
        "openssl pkey -in release.pem -pubout -out keys/release.pub\n",
    )
    assert made.returncode == 0, made.stderr
    (kernel / "boards.yaml").write_text(
        yaml.safe_dump(
            {"boards": [{"name": "cpu", "platform": f"{pocl.PLATFORM}*"}]}
        )
    )
    config = kernel / "pool.conf"
    config.write_text(
        f"[bitstreams]\ntrusted_keys_dir = {keys}\n"
        f"[opencl]\nboards_file = {kernel}/boards.yaml\n"
    )
    with (
        harness.short_directory() as run_dir,
        harness.Pool(
            run_dir,
            *("--hosts=1", "--boards=1", "--driver=opencl", "--api-port=0"),
            f"--config-file={config}",
        ) as pool,
    ):
        url = pool.wait_until_ready()["api_url"]
        place = urllib.parse.urlparse(url).netloc
        (slot,) = _slots(place)
        _write_clouds(kernel, url)
        refused = shell(
            kernel, commands.replace("SHAPE", "any"), OS_CLOUD="tenant"
        )
        assert refused.returncode != 0
        assert f"the pool's shapes are {slot['shape']}" in refused.stderr
        done = shell(
            kernel,
            commands.replace("SHAPE", slot["shape"]),
            OS_CLOUD="tenant",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"approved: slots of shape {slot['shape']}" in done.stdout
        output, _ = client.run_buffer(
            "scale",
            struct.pack("<3f", 1.5, 2.5, -1.0),
            params={"gain": 4},
            front_door=pool.front_door(),
            timeout_s=waiting.LIMIT_S,
        )
    assert struct.unpack("<3fq", output) == (6.0, 10.0, -4.0, 2)


def _slots(place: str) -> list[dict]:
    """Return the pool's slots, once its host has told them."""
    found: list[dict] = []

    def look() -> bool:
        answer = api.ask(place, "GET", "/v1/slots", "admin:default")
        found[:] = answer.document["slots"]
        return bool(found)

    waiting.wait_until(look, "a slot")
    return found


def _write_clouds(directory: pathlib.Path, url: str) -> None:
    """Write how the openstack command reaches a pool without Keystone."""
    clouds = {
        name: {
            "auth_type": "admin_token",
            "auth": {"endpoint": f"{url}/v1", "token": f"{user}:default"},
            "fpga_endpoint_override": f"{url}/v1",
        }
        for name, user in (("tenant", "alice"), ("admin", "admin"))
    }
    (directory / "clouds.yaml").write_text(yaml.safe_dump({"clouds": clouds}))
