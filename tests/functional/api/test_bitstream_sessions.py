# SPDX-License-Identifier: Apache-2.0

"""A tenant's own bitstream in a pool of real processes, by either source."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool.accelerators import base as accelerators
from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import waiting
from tests.services import process

# In the gate: allinone/test_bitstreams.py and agent/test_cache.py.
pytestmark = pytest.mark.long

DATA = random.Random(11).randbytes(50_000)
PROJECT = "project-a"


def declaration(name: str, iv: int) -> dict[str, object]:
    return {
        "format_version": 1,
        "name": name,
        "core": "aes",
        "params": {"key": "0f" * 16, "iv": f"{iv:032x}"},
        "stateless": True,
        "peak_bytes_per_s": 1e9,
    }


def encrypted(iv: int) -> bytes:
    """What the software core makes of the data."""
    params = {"key": "0f" * 16, "iv": f"{iv:032x}"}
    output = memoryview(bytearray(len(DATA)))
    accelerators.load_core("aes")(params).process(memoryview(DATA), output, 0)
    return bytes(output)


@pytest.fixture(scope="module")
def port() -> int:
    return process.free_port()


@pytest.fixture(scope="module")
def store_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module", params=["file", "api"])
def cloud(
    request: pytest.FixtureRequest,
    make_cloud: Callable[..., clouds.Cloud],
    store_dir: pathlib.Path,
    port: int,
) -> clouds.Cloud:
    """Give a pool whose agent fetches files from a source."""
    source: dict[str, object] = {"source": request.param}
    if request.param == "api":
        source |= {
            "auth_type": "admin_token",
            # It may do what services may, and is of none of the projects.
            "token": "agent:service:fpgapool:agent",
            "endpoint": f"http://{process.LOOPBACK}:{port}/v1",
            "endpoint_override": f"http://{process.LOOPBACK}:{port}/v1",
        }
    return make_cloud(
        clouds.HostPlan("board", slots=1),
        options={
            "bitstreams": {
                "signature_required": False,
                "store_dir": store_dir,
            },
            "bitstream_cache": source,
        },
    )


@pytest.fixture(scope="module")
def api(
    cloud: clouds.Cloud, service_workspace: process.Workspace, port: int
) -> Iterator[harness.Server]:
    server = harness.Server(
        f"api-{cloud.conductor.name}", cloud, service_workspace
    )
    server.port = port
    server.address = f"{process.LOOPBACK}:{port}"
    server.start()
    yield server
    server.kill()


class Tenant:
    """What a project does, by the API alone."""

    def __init__(self, api: harness.Server) -> None:
        self.api = api
        waiting.wait_until(api.is_led, "a conductor that answers")

    def run(self, name: str) -> bytes:
        """Send the data through; :returns: the output."""
        session = self.api.open_until_ready(
            accelerator=name, claimed_bytes=len(DATA)
        )
        connection = harness.connect(session)
        output = bytes(connection.run(DATA))
        connection.close_session()
        connection.close()
        self.api.close(session["id"])
        return output

    def slot(self) -> dict[str, object]:
        (found,) = self.api.ask(
            "GET", "/v1/slots", harness.ADMIN_TOKEN
        ).document["slots"]
        return dict(found)


@pytest.fixture
def tenant(api: harness.Server) -> Tenant:
    return Tenant(api)


def test_upload_approve_use(tenant: Tenant) -> None:
    tenant.api.bring(declaration("first", 1))
    assert tenant.run("first") == encrypted(1)
    assert tenant.slot()["programmed"] == f"first@{PROJECT}"
    opened = tenant.api.open(harness.OTHER_TOKEN, accelerator="first")
    assert opened.code == "UNKNOWN_ACCELERATOR"


def test_a_file_that_is_late_is_waited_for(
    tenant: Tenant, store_dir: pathlib.Path
) -> None:
    late = tenant.api.bring(declaration("late", 4))
    (path,) = store_dir.glob(f"*/*.{late}")
    content = path.read_bytes()
    path.unlink()
    session = tenant.api.open(
        accelerator="late", claimed_bytes=len(DATA)
    ).session
    session = tenant.api.wait(session, "PREPARING")
    path.write_bytes(content)
    session = tenant.api.wait(session, "READY")
    tenant.api.close(session["id"])
    assert tenant.run("late") == encrypted(4)
