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

"""The bitstream library on a pool of real processes."""

from __future__ import annotations

import hashlib
import http.client
import pathlib
import random
import typing
from collections.abc import Callable

import pytest

from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import waiting

# In the gate: tests/unit/api/test_bitstreams.py and
# tests/integration/test_bitstreams.py.
pytestmark = pytest.mark.long

DATA = random.Random(3).randbytes(2_500_000)
CHECKSUM = hashlib.sha256(DATA).hexdigest()
LIMIT_BYTES = 3_000_000
QUOTA_BYTES = 6_000_000
OCTETS = "application/octet-stream"

BITSTREAM = {
    "accelerator": "mine",
    "shapes": ["medium"],
    "profile": {"peak_bytes_per_s": 1e8, "core": "copy"},
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give the directory of the store."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def cloud(
    make_cloud: Callable[..., clouds.Cloud], directory: pathlib.Path
) -> clouds.Cloud:
    """Give a pool of which projects may have a few bitstreams."""
    return make_cloud(
        clouds.HostPlan("board", slots=1),
        options={
            "quota": {"bitstream_bytes": QUOTA_BYTES},
            "bitstreams": {
                "signature_required": False,
                "max_size_bytes": LIMIT_BYTES,
                "store_dir": directory,
            },
        },
    )


class Library:
    """What tests ask of the API.

    :param api: the server.
    :param directory: of its store.
    """

    def __init__(self, api: harness.Server, directory: pathlib.Path) -> None:
        self.api = api
        self.directory = directory

    def ask(
        self, method: str, path: str = "", *arguments: typing.Any
    ) -> harness.Answer:
        return self.api.ask(method, f"/v1/bitstreams{path}", *arguments)

    def create(self, token: str = harness.TOKEN, **members: object) -> str:
        body = {"bitstream": {**BITSTREAM, **members}}
        answer = self.ask("POST", "", token, body)
        assert answer.status == 201, answer
        return str(answer.document["bitstream"]["id"])

    def upload(
        self,
        bitstream_id: str,
        data: typing.Any = DATA,
        token: str = harness.TOKEN,
        **headers: str,
    ) -> tuple[int, bytes]:
        """Send a file; :returns: status and answer."""
        connection = http.client.HTTPConnection(self.api.address, timeout=60)
        sent = {"X-Auth-Token": token, "Content-Type": OCTETS, **headers}
        try:
            path = f"/v1/bitstreams/{bitstream_id}/file"
            connection.request("PUT", path, data, sent)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def approve(self, bitstream_id: str) -> None:
        path = f"/{bitstream_id}/approve"
        answer = self.ask("POST", path, harness.ADMIN_TOKEN, {"approve": {}})
        assert answer.status == 200, answer

    def show(self, bitstream_id: str) -> dict[str, typing.Any]:
        answer = self.ask("GET", f"/{bitstream_id}")
        return dict(answer.document["bitstream"])

    def files(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.directory))
            for path in self.directory.rglob("*")
            if path.is_file()
        )

    def names(self, token: str = harness.TOKEN) -> list[str]:
        answer = self.api.ask("GET", "/v1/accelerators", token)
        return [one["name"] for one in answer.document["accelerators"]]

    def wait_for_conductor(self) -> None:
        waiting.wait_until(self.api.is_led, "a conductor that answers")

    def clear(self) -> None:
        self.wait_for_conductor()
        listed = self.ask(
            "GET", "?all_projects=true", harness.ADMIN_TOKEN
        ).document["bitstreams"]
        for one in listed:
            path = f"/{one['id']}"
            assert self.ask("DELETE", path, harness.ADMIN_TOKEN).status == 204
        assert self.files() == []


@pytest.fixture
def library(
    api: harness.Server, directory: pathlib.Path
) -> typing.Iterator[Library]:
    """Give the library, and empty it."""
    found = Library(api, directory)
    yield found
    found.clear()


def test_what_is_uploaded_is_there(library: Library) -> None:
    """On the disk, in the database, for its owner."""
    bitstream_id = library.create(checksum_sha256=CHECKSUM)
    status, _ = library.upload(bitstream_id)
    assert status == 200
    assert library.files() == [f"{CHECKSUM[:2]}/{CHECKSUM}.{bitstream_id}"]
    assert "mine@project-a" not in library.names()
    library.approve(bitstream_id)
    assert "mine@project-a" in library.names()
    assert "mine@project-a" not in library.names(harness.OTHER_TOKEN)
    opened = library.api.open(harness.OTHER_TOKEN, accelerator="mine")
    assert opened.code == "UNKNOWN_ACCELERATOR"


def test_a_conductor_that_starts_anew_has_the_library(
    library: Library, cloud: clouds.Cloud
) -> None:
    """All of it, by what the database holds."""
    first, second = library.create(), library.create(version="1.10")
    for bitstream_id in (first, second):
        library.upload(bitstream_id)
    library.approve(first)
    library.ask("PUT", f"/{first}/projects/{clouds.OTHER_PROJECT}")
    before = library.show(first), library.show(second)
    cloud.conductor.kill()
    cloud.conductor.start()
    library.wait_for_conductor()
    assert (library.show(first), library.show(second)) == before
    library.approve(second)
    assert "mine@project-a" in library.names(harness.OTHER_TOKEN)
    deleted = library.ask("DELETE", f"/{first}")
    assert deleted.status == 204
    assert library.ask("GET", f"/{first}").status == 404


def _chunks(data: bytes) -> typing.Iterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


def test_a_file_without_a_length(library: Library) -> None:
    """Sent in chunks; the limit holds nevertheless."""
    bitstream_id = library.create()
    status, content = library.upload(
        bitstream_id, _chunks(bytes(LIMIT_BYTES + 100_000))
    )
    assert (status, b"BITSTREAM_TOO_LARGE" in content) == (413, True)
    assert library.files() == []
    assert library.upload(bitstream_id, _chunks(DATA))[0] == 200
    assert library.show(bitstream_id)["checksum_sha256"] == CHECKSUM


def test_who_sends_too_much_is_told_so(library: Library) -> None:
    """Though it sends for long after that was clear."""
    bitstream_id = library.create()
    connection = http.client.HTTPConnection(library.api.address, timeout=60)
    size_bytes = LIMIT_BYTES + 8 * 2**20
    connection.putrequest("PUT", f"/v1/bitstreams/{bitstream_id}/file")
    for name, value in (
        ("X-Auth-Token", harness.TOKEN),
        ("Content-Type", OCTETS),
        ("Content-Length", str(size_bytes)),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    for piece in _chunks(bytes(size_bytes)):
        connection.send(piece)
    response = connection.getresponse()
    assert response.status == 413
    assert b"BITSTREAM_TOO_LARGE" in response.read()
    connection.close()


def test_half_an_upload_leaves_nothing(library: Library) -> None:
    """And can be tried again."""
    bitstream_id = library.create()
    connection = http.client.HTTPConnection(library.api.address, timeout=60)
    connection.putrequest("PUT", f"/v1/bitstreams/{bitstream_id}/file")
    for name, value in (
        ("X-Auth-Token", harness.TOKEN),
        ("Content-Type", OCTETS),
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
    assert library.files() == []
    assert library.show(bitstream_id)["state"] == "uploading"
    assert library.upload(bitstream_id)[0] == 200


def test_the_quota_of_bytes(library: Library) -> None:
    """Counted when a file is there; other projects have their own."""
    for _ in range(2):
        assert library.upload(library.create())[0] == 200
    third = library.create()
    status, content = library.upload(third)
    assert (status, b"QUOTA_EXCEEDED" in content) == (429, True)
    assert len(library.files()) == 2
    other = library.create(harness.OTHER_TOKEN)
    status, _ = library.upload(other, token=harness.OTHER_TOKEN)
    assert status == 200


def test_a_new_file_does_not_reach_the_disk_without_the_conductor(
    library: Library, cloud: clouds.Cloud
) -> None:
    """It may be written down twice, but never half."""
    bitstream_id = library.create()
    cloud.conductor.kill()
    status, content = library.upload(bitstream_id)
    assert (status, b"CONDUCTOR_UNAVAILABLE" in content) == (503, True)
    cloud.conductor.start()
    library.wait_for_conductor()
    assert library.show(bitstream_id)["state"] == "uploading"
    assert library.upload(bitstream_id)[0] == 200
    assert len(library.files()) == 1
