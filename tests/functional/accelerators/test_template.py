# SPDX-License-Identifier: Apache-2.0

"""The accelerator of the page "Write an accelerator", as it stands there."""

import json
import os
import pathlib
import random
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.cmd import manage
from fpgapool.db import api
from tests.functional.client import breaking
from tests.functional.worker import harness
from tests.harness import pages
from tests.harness import slots

PAGE = pages.CONTRIBUTOR / "write-an-accelerator.rst"


@pytest.fixture(scope="module")
def profile(
    directory: pathlib.Path, operator_directory: pathlib.Path
) -> Iterator[pathlib.Path]:
    """Install the core and its profile as the page says."""
    modules = directory / "modules"
    modules.mkdir()
    (modules / "byteswap.py").write_text(pages.code_block(PAGE, "byteswap.py"))
    path = operator_directory / "byteswap.yaml"
    path.write_text(pages.code_block(PAGE, "byteswap.yaml"))
    inherited = os.environ.get("PYTHONPATH")
    search = os.pathsep.join(filter(None, (str(modules), inherited)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", search)
        yield path


@pytest.fixture(scope="module")
def door(
    directory: pathlib.Path, profile: pathlib.Path
) -> Iterator[slots.Door]:
    """Give a pool of one slot that knows the accelerator."""
    with slots.Door(directory, "shm") as made:
        yield made


def test_the_library_takes_it(profile, tmp_path, capsys):
    conf = tmp_path / "fpgapool.conf"
    url = f"sqlite:///{tmp_path}/fpgapool.sqlite"
    conf.write_text(f"[database]\nconnection = {url}\n")

    def run(*argv: str) -> str:
        assert manage.main(["--config-file", str(conf), *argv]) == 0
        return capsys.readouterr().out

    run("db", "sync")
    output = run("accelerator", "load", str(profile))
    assert output == "Accelerator byteswap loaded.\n"
    database = api.Database(url)
    records = {record.name: record for record in database.accelerators()}
    database.close()
    assert records["byteswap"].profile["core"] == "byteswap:ByteswapCore"
    assert {"aes", "sha"} <= set(records)


def test_a_worker_runs_it(door):
    data = random.Random(1).randbytes(10 * harness.CHUNK_BYTES + 40)
    output, _ = client.run_buffer(
        "byteswap",
        data,
        params={"width_bytes": 4},
        front_door=door.path,
        timeout_s=breaking.TIMEOUT_S,
    )
    assert output[0::4] == data[3::4]
    assert output[1::4] == data[2::4]
    assert output[2::4] == data[1::4]
    assert output[3::4] == data[0::4]


@pytest.mark.parametrize("width_bytes", [3, "4", 16])
def test_it_refuses_other_parameters(door, width_bytes):
    with pytest.raises(client.InvalidParams) as caught:
        client.run_buffer(
            "byteswap",
            bytes(8),
            params={"width_bytes": width_bytes},
            front_door=door.path,
            timeout_s=breaking.TIMEOUT_S,
        )
    assert "'width_bytes'" in caught.value.message


def test_it_refuses_half_a_number(door):
    with pytest.raises(client.SessionFailed) as caught:
        client.run_buffer(
            "byteswap",
            bytes(7),
            params={"width_bytes": 2},
            front_door=door.path,
            timeout_s=breaking.TIMEOUT_S,
        )
    assert caught.value.code == "INVALID_INPUT"


def test_a_core_that_is_not_there_fails_the_preparation(
    directory, operator_directory, profile
):
    text = profile.read_text().replace("byteswap", "elsewhere")
    (operator_directory / "elsewhere.yaml").write_text(text)
    own = directory / "other"
    own.mkdir()
    worker = harness.WorkerProcess(own)
    try:
        agent = worker.connect()
        assert agent.assign(
            accelerator="elsewhere", bitstream="builtin:elsewhere"
        )["ok"]
        result = agent.wait_result()
        agent.close()
    finally:
        worker.kill()
    assert result["state"] == "PREPARE_FAILED"
    assert "CORE_UNAVAILABLE" in json.dumps(result)
    assert "elsewhere:ByteswapCore" in result["message"]
