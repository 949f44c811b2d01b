# SPDX-License-Identifier: Apache-2.0

"""A tenant's own bitstream in an all-in-one pool, from upload to output."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import random
import typing
import urllib.parse
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.accelerators import base as accelerators
from fpgapool.bitstreams import signatures
from tests.functional.allinone import harness as allinone
from tests.functional.api import harness
from tests.harness import waiting
from tests.unit.bitstreams import samples

DATA = random.Random(7).randbytes(200_000)
KEY, IV = "0f" * 32, "5a" * 16
OWNER = "alice:default"
ADMIN = "admin:default"
OCTETS = "application/octet-stream"


def declaration(name: str, **changes: object) -> bytes:
    return json.dumps(
        {
            "format_version": 1,
            "name": name,
            "core": "aes",
            "params": {"iv": IV},
            "params_schema": {
                "type": "object",
                "additionalProperties": False,
                "required": ["key"],
                "properties": {"key": {"type": "string", "minLength": 32}},
            },
            "stateless": True,
            "peak_bytes_per_s": 1e9,
            "resources": {"lut": 5000},
            **changes,
        }
    ).encode()


class Pool(typing.NamedTuple):
    """A pool, and where its API and its files are."""

    address: str
    front_door: str
    state_dir: pathlib.Path

    def ask(self, *arguments: typing.Any, **options: typing.Any):
        return harness.ask(self.address, *arguments, **options)

    def upload(self, data: bytes, version: str, **members: object) -> str:
        """Bring a bitstream in; :returns: its id, not approved yet."""
        answer = self.ask(
            "POST",
            "/v1/bitstreams",
            OWNER,
            {
                "bitstream": {
                    "accelerator": json.loads(data)["name"],
                    "version": version,
                    "format": "declaration",
                    "shapes": ["any"],
                    "checksum_sha256": hashlib.sha256(data).hexdigest(),
                    **members,
                }
            },
        )
        assert answer.status == 201, answer
        bitstream_id = str(answer.document["bitstream"]["id"])
        answer = self.ask(
            "PUT",
            f"/v1/bitstreams/{bitstream_id}/file",
            OWNER,
            data,
            content_type=OCTETS,
        )
        assert answer.status == 200, answer
        return bitstream_id

    def approve(self, bitstream_id: str) -> None:
        answer = self.ask(
            "POST",
            f"/v1/bitstreams/{bitstream_id}/approve",
            ADMIN,
            {"approve": {}},
        )
        assert answer.status == 200, answer

    def bring(
        self, data: bytes, version: str = "1.0", **members: object
    ) -> str:
        """Upload and approve; :returns: the id."""
        bitstream_id = self.upload(data, version, **members)
        self.approve(bitstream_id)
        return bitstream_id

    def slots(self) -> list[dict[str, typing.Any]]:
        answer = self.ask("GET", "/v1/slots", ADMIN)
        return list(answer.document["slots"])

    def cached(self, data: bytes) -> list[pathlib.Path]:
        checksum = hashlib.sha256(data).hexdigest()
        return list(self.state_dir.glob(f"*/bitstream-cache/{checksum}"))

    def run(self, name: str, **params: object) -> bytes:
        """Send the data through an accelerator; :returns: the output."""
        with client.acc_open(
            name,
            len(DATA),
            params=params,
            front_door=self.front_door,
            timeout_s=harness.TIMEOUT_S,
        ) as session:
            session.pin[: len(DATA)] = DATA
            return bytes(session.run(len(DATA)))


def expected(core: str = "aes", **params: object) -> bytes:
    """What the software core makes of the data."""
    made = accelerators.load_core(core)(params)
    output = memoryview(bytearray(2 * len(DATA) + 4096))
    written = made.process(memoryview(DATA), output, 0)
    return bytes(output[:written])


@contextlib.contextmanager
def running_pool(*options: str) -> Iterator[Pool]:
    with allinone.short_directory() as run_dir:
        with allinone.Pool(
            run_dir,
            "--hosts=1",
            "--boards=1",
            "--slots=1",
            "--unlimited",
            "--api-port=0",
            *options,
        ) as running:
            url = urllib.parse.urlparse(running.wait_until_ready()["api_url"])
            yield Pool(url.netloc, running.front_door(), run_dir / "state")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with running_pool() as running:
        yield running


def test_upload_approve_use(pool: Pool) -> None:
    data = declaration("mine")
    bitstream_id = pool.upload(data, "1.0")
    path = "/v1/accelerators/mine"
    assert pool.ask("GET", path, OWNER).status == 404
    pool.approve(bitstream_id)
    assert pool.ask("GET", path, OWNER).status == 200
    assert pool.run("mine", key=KEY) == expected(key=KEY, iv=IV)
    # The agent's report says it, and inventory is remembered for a second.
    waiting.wait_until(
        lambda: [s["programmed"] for s in pool.slots()] == ["mine@default"],
        "it is programmed",
    )
    assert len(pool.cached(data)) == 1
    # Builtin ones and the project's own take turns in the slot.
    assert pool.run("aes", key=KEY, iv=IV) == expected(key=KEY, iv=IV)
    assert pool.run("mine", key=KEY) == expected(key=KEY, iv=IV)


def test_parameters_are_checked_before_anything_is_sent(pool: Pool) -> None:
    pool.bring(declaration("checked"))
    for params in ({}, {"key": KEY, "iv": IV}, {"key": "short"}):
        with pytest.raises(client.InvalidParams):
            pool.run("checked", **params)
    with pytest.raises(client.FpgapoolError) as caught:
        # Long enough for the schema, but no key for the core.
        pool.run("checked", key="x" * 64)
    assert caught.value.code == "INVALID_PARAMS"


def test_a_bitstream_that_no_host_can_use_ends_its_sessions(
    pool: Pool,
) -> None:
    """It does not wait for ever, and the slot stays in use for others."""
    pool.bring(declaration("unknown", core="no-such-core"))
    for _ in range(2):
        with pytest.raises(client.FpgapoolError) as caught:
            pool.run("unknown", key=KEY)
        assert caught.value.code == "BITSTREAM_UNKNOWN"
    (slot,) = pool.slots()
    assert slot["state"] != "FAULTY"
    assert pool.run("aes", key=KEY, iv=IV) == expected(key=KEY, iv=IV)


@pytest.mark.security
def test_a_withdrawn_key_programs_no_slot(tmp_path: pathlib.Path) -> None:
    """Not even the slot that still has what the key has signed."""
    signer = samples.Signer(tmp_path / "keys")
    signer.trust("release.pem")
    key_file = signer.directory / "release.pem"
    config_file = tmp_path / "signed.conf"
    config_file.write_text(
        "[bitstreams]\n"
        "signature_required = true\n"
        f"trusted_keys_dir = {signer.directory}\n"
    )
    data = declaration("signed")
    signature = signatures.sign(
        signer.private_pem, hashlib.sha256(data).hexdigest()
    )
    with running_pool(f"--config-file={config_file}") as pool:
        pool.bring(data, signature=signature)
        assert pool.run("signed", key=KEY) == expected(key=KEY, iv=IV)
        withdrawn = key_file.rename(tmp_path / "withdrawn")
        for _ in range(2):
            with pytest.raises(client.FpgapoolError) as caught:
                pool.run("signed", key=KEY)
            assert caught.value.code == "BITSTREAM_UNTRUSTED"
            assert "signed" in caught.value.message
        (slot,) = pool.slots()
        assert slot["state"] != "FAULTY"
        assert pool.run("aes", key=KEY, iv=IV) == expected(key=KEY, iv=IV)
        withdrawn.rename(key_file)
        assert pool.run("signed", key=KEY) == expected(key=KEY, iv=IV)
