# SPDX-License-Identifier: Apache-2.0

"""Bitstreams in a real Glance, and whom they are for in a real Keystone."""

from __future__ import annotations

import configparser
import hashlib
import http.client
import random
import typing
from collections.abc import Iterator
from collections.abc import Mapping

import pytest

from tests.harness import cloud as clouds
from tests.integration import server
from tests.services import glance as glance_service
from tests.services import keystone as keystone_service
from tests.services import openstack
from tests.services import process

pytestmark = pytest.mark.security

DATA = random.Random(5).randbytes(3_000_000)
CHECKSUM = hashlib.sha256(DATA).hexdigest()

BITSTREAM = {
    "accelerator": "mine",
    "name": "a bitstream",
    "version": "1.2",
    "description": "for tests",
    "shapes": ["medium"],
    "profile": {"peak_bytes_per_s": 1e8, "core": "copy"},
    "properties": {
        "vendor": "0x10ee",
        "board": "u250",
        "shell_id": "s1",
        "driver": "xrt",
        "function_uuid": "f1",
    },
}


class Library:
    """The API with Glance as its store."""

    def __init__(self, api: server.Server, tokens: Mapping[str, str]) -> None:
        self.api = api
        self.tokens = tokens

    def ask(
        self,
        method: str,
        path: str,
        persona: str,
        body: typing.Any = None,
        **options: typing.Any,
    ) -> typing.Any:
        return self.api.ask(
            method,
            f"/v1/bitstreams{path}",
            self.tokens[persona],
            body,
            **options,
        )

    def create(self, **members: object) -> str:
        body = {"bitstream": {**BITSTREAM, **members}}
        answer = self.ask("POST", "", "member", body)
        assert answer.status == 201, answer
        return str(answer.document["bitstream"]["id"])

    def upload(self, bitstream_id: str, data: bytes = DATA) -> typing.Any:
        return self.ask(
            "PUT",
            f"/{bitstream_id}/file",
            "member",
            data,
            content_type="application/octet-stream",
        )

    def approve(self, bitstream_id: str) -> None:
        body: Mapping[str, object] = {"approve": {}}
        path = f"/{bitstream_id}/approve"
        assert self.ask("POST", path, "admin", body).status == 200

    def fetch(self, bitstream_id: str, persona: str) -> tuple[int, bytes]:
        """Return status and content of a file."""
        connection = http.client.HTTPConnection(self.api.address, timeout=60)
        try:
            connection.request(
                "GET",
                f"/v1/bitstreams/{bitstream_id}/file",
                headers={"X-Auth-Token": self.tokens[persona]},
            )
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def library(
    cloud: clouds.Cloud,
    service_workspace: process.Workspace,
    keystone: keystone_service.Keystone,
    glance: glance_service.Glance,
    accounts: openstack.Accounts,
    tokens: Mapping[str, str],
) -> Iterator[Library]:
    """Give a library whose files are in Glance."""
    served = server.Server(cloud, service_workspace, keystone, "glance-api")
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(served.config_path)
    parser["bitstreams"] = {
        "store": "glance",
        "signature_required": "false",
        "max_size_bytes": "4000000",
    }
    parser["glance"] = {
        "auth_type": "password",
        **keystone.auth_options(
            openstack.SERVICE_NAME, openstack.SERVICE_PROJECT
        ),
        "region_name": openstack.REGION,
    }
    with served.config_path.open("w") as file:
        parser.write(file)
    served.start()
    yield Library(served, tokens)
    served.kill()


@pytest.fixture
def images(
    glance: glance_service.Glance, accounts: openstack.Accounts
) -> typing.Callable[[], list[dict[str, typing.Any]]]:
    """Give a function that lists the hidden images of fpgapool."""
    user = accounts.create_service_user(openstack.SERVICE_NAME)

    def find() -> list[dict[str, typing.Any]]:
        answer = openstack.web_session().get(
            f"{glance.base_url}/v2/images?os_hidden=true",
            headers={"X-Auth-Token": accounts.token(user).text},
            timeout=60,
        )
        return list(answer.json()["images"])

    return find


def test_a_bitstream_is_an_image_with_the_names_of_cyborg(
    library: Library, images: typing.Callable[[], list[typing.Any]]
) -> None:
    """Uploaded by its owner, fetched by the service, gone when deleted."""
    before = images()
    bitstream_id = library.create(checksum_sha256=CHECKSUM)
    assert library.upload(bitstream_id).status == 200
    (image,) = [one for one in images() if one not in before]
    assert image["visibility"] == "private"
    assert (image["os_hidden"], image["status"]) == (True, "active")
    assert (image["disk_format"], image["container_format"]) == (
        "raw",
        "bare",
    )
    assert image["size"] == len(DATA)
    expected = {
        "bs-name": "a bitstream",
        "bs-uuid": bitstream_id,
        "vendor": "0x10ee",
        "board": "u250",
        "shell_id": "s1",
        "version": "1.2",
        "driver": "xrt",
        "function_uuid": "f1",
        "function_name": "mine",
        "description": "for tests",
    }
    assert {name: image.get(name) for name in expected} == expected
    library.approve(bitstream_id)
    status, content = library.fetch(bitstream_id, "agent")
    assert status == 200
    assert hashlib.sha256(content).hexdigest() == CHECKSUM
    assert library.ask("DELETE", f"/{bitstream_id}", "member").status == 204
    assert images() == before


def test_nothing_is_left_of_what_is_wrong(
    library: Library, images: typing.Callable[[], list[typing.Any]]
) -> None:
    """A wrong checksum, and a file that is too large."""
    before = images()
    bitstream_id = library.create(checksum_sha256="ab" * 32)
    assert library.upload(bitstream_id).code == "CHECKSUM_MISMATCH"
    large = library.upload(bitstream_id, bytes(4_000_001))
    assert large.code == "BITSTREAM_TOO_LARGE"
    assert images() == before
    assert library.ask("DELETE", f"/{bitstream_id}", "member").status == 204


def test_an_upload_that_breaks_off_leaves_nothing(
    library: Library, images: typing.Callable[[], list[typing.Any]]
) -> None:
    """And can be tried again."""
    before = images()
    bitstream_id = library.create()
    connection = http.client.HTTPConnection(library.api.address, timeout=60)
    connection.putrequest("PUT", f"/v1/bitstreams/{bitstream_id}/file")
    for name, value in (
        ("X-Auth-Token", library.tokens["member"]),
        ("Content-Type", "application/octet-stream"),
        ("Content-Length", str(len(DATA))),
    ):
        connection.putheader(name, value)
    connection.endheaders(DATA[:100_000])
    assert connection.sock is not None
    # Half closed: whoever reads finds the end, and can answer still.
    connection.sock.shutdown(1)
    response = connection.getresponse()
    assert response.status == 400
    assert b"UPLOAD_INCOMPLETE" in response.read()
    connection.close()
    assert images() == before
    assert library.upload(bitstream_id).status == 200
    assert library.ask("DELETE", f"/{bitstream_id}", "member").status == 204


@pytest.mark.long
def test_without_glance_the_bitstream_waits(
    library: Library, glance: glance_service.Glance
) -> None:
    """503, and again when it is back."""
    bitstream_id = library.create()
    glance.kill()
    try:
        answer = library.upload(bitstream_id)
        assert (answer.status, answer.code) == (503, "STORE_UNAVAILABLE")
    finally:
        glance.start()
    shown = library.ask("GET", f"/{bitstream_id}", "member").document
    assert shown["bitstream"]["state"] == "uploading"
    assert library.upload(bitstream_id).status == 200
    assert library.ask("DELETE", f"/{bitstream_id}", "member").status == 204
