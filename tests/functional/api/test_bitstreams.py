# SPDX-License-Identifier: Apache-2.0

"""Files of bitstreams that a real web server takes, or does not."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import pathlib
import random
import typing
from collections.abc import Callable

import pytest

from tests.functional.api import harness
from tests.harness import cloud as clouds

# In the gate: tests/unit/api/test_bitstreams.py and
# tests/integration/test_bitstreams.py.
pytestmark = pytest.mark.long

DATA = random.Random(3).randbytes(2_500_000)
LIMIT_BYTES = 3_000_000
LIBRARY = "/v1/bitstreams"
HEADERS = {
    "X-Auth-Token": harness.TOKEN,
    "Content-Type": "application/octet-stream",
}

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
    """Give a pool that takes bitstreams of a limited size."""
    return make_cloud(
        clouds.HostPlan("board", slots=1),
        options={
            "bitstreams": {
                "signature_required": False,
                "max_size_bytes": LIMIT_BYTES,
                "store_dir": directory,
            },
        },
    )


@pytest.fixture
def bitstream(api: harness.Server) -> typing.Iterator[str]:
    """Give the path of one that has no file yet."""
    answer = api.ask("POST", LIBRARY, harness.TOKEN, {"bitstream": BITSTREAM})
    assert answer.status == 201, answer
    path = f"{LIBRARY}/{answer.document['bitstream']['id']}"
    yield path
    assert api.ask("DELETE", path, harness.ADMIN_TOKEN).status == 204


def _chunks(data: bytes) -> typing.Iterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


def test_a_file_without_a_length(
    api: harness.Server, bitstream: str, directory: pathlib.Path
) -> None:
    """Sent in chunks; the limit holds nevertheless."""

    def upload(data: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(api.address, timeout=60)
        with contextlib.closing(connection):
            connection.request(
                "PUT", f"{bitstream}/file", _chunks(data), HEADERS
            )
            response = connection.getresponse()
            return response.status, response.read()

    status, content = upload(bytes(LIMIT_BYTES + 100_000))
    assert (status, b"BITSTREAM_TOO_LARGE" in content) == (413, True)
    assert not [path for path in directory.rglob("*") if path.is_file()]
    assert upload(DATA)[0] == 200
    shown = api.ask("GET", bitstream).document["bitstream"]
    assert shown["checksum_sha256"] == hashlib.sha256(DATA).hexdigest()


def test_who_sends_too_much_is_told_so(
    api: harness.Server, bitstream: str
) -> None:
    """Though it sends for long after that was clear."""
    size_bytes = LIMIT_BYTES + 8 * 2**20
    connection = http.client.HTTPConnection(api.address, timeout=60)
    with contextlib.closing(connection):
        connection.putrequest("PUT", f"{bitstream}/file")
        for name, value in HEADERS.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(size_bytes))
        connection.endheaders()
        for piece in _chunks(bytes(size_bytes)):
            connection.send(piece)
        response = connection.getresponse()
        assert response.status == 413
        assert b"BITSTREAM_TOO_LARGE" in response.read()
