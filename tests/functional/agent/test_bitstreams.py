# SPDX-License-Identifier: Apache-2.0

"""An agent that has to fetch what its slots are programmed with."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import threading
from collections.abc import Generator
from collections.abc import Iterator

import pytest

from fpgapool import objects
from fpgapool.agent import service
from fpgapool.agent.bitstreams import sources
from fpgapool.bitstreams import files
from fpgapool.bitstreams import signatures
from tests.functional.agent import harness
from tests.unit.bitstreams import samples

KEY = f"mine@{harness.PROJECT}"


def declaration(**changes: object) -> bytes:
    return json.dumps(
        {
            "format_version": 1,
            "name": "mine",
            "core": "copy",
            "peak_bytes_per_s": 1e9,
            **changes,
        }
    ).encode()


def reference(data: bytes, number: int = 1) -> objects.BitstreamRef:
    return objects.BitstreamRef(
        bitstream_id=f"7f000000-0000-4000-8000-{number:012d}",
        checksum_sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        format="declaration",
    )


class Library:
    """A file store that can be held up, as a source counts what is read."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.source = sources.DirectorySource(directory)
        self.asked = 0
        self.open = threading.Event()
        self.open.set()

    def put(self, data: bytes, number: int = 1) -> objects.BitstreamRef:
        found = reference(data, number)
        path = self.path(found)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return found

    def path(self, bitstream: objects.BitstreamRef) -> pathlib.Path:
        return self.directory / files.relative_path(
            bitstream.checksum_sha256, bitstream.bitstream_id
        )

    def pieces(
        self, bitstream: objects.BitstreamRef
    ) -> Generator[bytes, None, None]:
        self.asked += 1
        assert self.open.wait(harness.TIMEOUT_S)
        yield from self.source.pieces(bitstream)


@pytest.fixture
def library(directory: pathlib.Path) -> Library:
    return Library(directory / "store")


@pytest.fixture
def host(directory: pathlib.Path, library: Library) -> Iterator[harness.Host]:
    with harness.running_host(
        directory, bitstream_source=library, bitstream_fetch_timeout_s=5.0
    ) as running:
        yield running
        library.open.set()


def start(host: harness.Host) -> service.Agent:
    agent = host.start()
    for slot in (0, 1):
        host.conductor.wait_for_slot(slot, lambda one: one.state == "idle")
    return agent


def assign(
    agent: service.Agent,
    generation: int,
    bitstream: objects.BitstreamRef,
    slot: int = 0,
) -> None:
    harness.assign(
        agent,
        generation,
        slot,
        accelerator=KEY,
        bitstream=f"bitstream:{bitstream.bitstream_id}",
        bitstream_ref=bitstream,
    )


def ready(
    host: harness.Host, generation: int, slot: int = 0
) -> objects.SlotReport:
    return host.conductor.wait_for_slot(
        slot,
        lambda one: one.state == "ready" and one.generation == generation,
    )


def ended(
    host: harness.Host, generation: int, slot: int = 0
) -> objects.SessionResult:
    found = host.conductor.wait_for_slot(
        slot,
        lambda one: (
            one.state == "idle"
            and one.last_result is not None
            and one.last_result.generation == generation
        ),
    ).last_result
    assert found is not None
    return found


def cached(host: harness.Host, bitstream: objects.BitstreamRef):
    directory = pathlib.Path(host.settings.state_path, service.CACHE_NAME)
    return directory / bitstream.checksum_sha256


def damage(path: pathlib.Path) -> None:
    """Change a file so that it looks as before."""
    data = path.read_bytes()
    path.write_bytes(data.replace(b"copy", b"aes "))
    assert path.stat().st_size == len(data)


def test_a_slot_gets_what_was_fetched_and_says_so(host, library):
    bitstream = library.put(declaration())
    agent = start(host)
    assign(agent, 1, bitstream)
    slot = ready(host, 1)
    assert slot.programmed == KEY
    assert slot.bitstream_id == bitstream.bitstream_id
    host.conductor.wait_for("prepared", lambda one: one.generation == 1)
    assert cached(host, bitstream).read_bytes() == declaration()


def test_a_new_version_is_programmed(host, library):
    old = library.put(declaration(), 1)
    new = library.put(declaration(core="sha"), 2)
    agent = start(host)
    for generation, bitstream in enumerate((old, new, new), 1):
        assign(agent, generation, bitstream)
        slot = ready(host, generation)
        assert slot.programmed == KEY
        assert slot.bitstream_id == bitstream.bitstream_id
        harness.release(agent, generation)
        ended(host, generation)


def test_what_the_driver_finds_damaged_is_fetched_again_once(
    host, library, monkeypatch
):
    """The agent is made to believe that the file is as it was."""
    bitstream = library.put(declaration())
    agent = start(host)
    assign(agent, 1, bitstream)
    ready(host, 1)
    harness.release(agent, 1)
    ended(host, 1)
    damage(cached(host, bitstream))
    monkeypatch.setattr(
        "fpgapool.agent.bitstreams.cache._looks", lambda path: (0,)
    )
    agent._cache._entries[bitstream.checksum_sha256].proved = (0,)
    assign(agent, 2, bitstream)
    slot = ready(host, 2)
    assert slot.bitstream_id == bitstream.bitstream_id
    assert library.asked == 2
    results = {
        line.last_result.code
        for report in host.conductor.named("report")
        for line in report.devices[0].slots
        if line.last_result is not None
    }
    # The conductor never hears of it.
    assert "BITSTREAM_DAMAGED" not in results


@pytest.mark.security
def test_a_key_that_is_withdrawn_while_the_file_comes_counts_no_more(
    directory, library
):
    signer = samples.Signer(directory / "keys")
    signer.trust("release.pem")
    plain = library.put(declaration())
    bitstream = dataclasses.replace(
        plain,
        signature=signatures.sign(signer.private_pem, plain.checksum_sha256),
    )
    library.open.clear()
    with harness.running_host(
        directory,
        bitstream_source=library,
        trusted_keys=signatures.TrustedKeys(str(signer.directory)),
        signature_required=True,
    ) as host:
        agent = start(host)
        assign(agent, 1, bitstream)
        host.conductor.wait_for_slot(0, lambda one: one.state == "preparing")
        (signer.directory / "release.pem").unlink()
        library.open.set()
        result = ended(host, 1)
        assert (result.state, result.code) == (
            "PREPARE_FAILED",
            "BITSTREAM_UNTRUSTED",
        )
        # From the cache, too; and for others the slot is as it was.
        assign(agent, 2, bitstream)
        assert ended(host, 2).code == "BITSTREAM_UNTRUSTED"
        harness.assign(agent, 3)
        assert ready(host, 3).programmed == "copy"
        signer.trust("release.pem")
        assign(agent, 4, bitstream, slot=1)
        assert ready(host, 4, slot=1).programmed == KEY
