# SPDX-License-Identifier: Apache-2.0

"""Rows of bitstreams on every kind of server, and the operator's commands."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from fpgapool.bitstreams import signatures
from fpgapool.cmd import manage
from fpgapool.db import api
from tests.unit.bitstreams import samples


@pytest.mark.dialect
def test_what_was_written_is_read_changed_and_deleted(
    database: api.Database, epoch: int
) -> None:
    first = samples.record(1, description="ü", projects=["p2"], public=True)
    second = samples.record(2, project_id="p2", uploaded_at=None)
    database.commit(epoch, api.Changes.of([first, second]))
    assert database.bitstreams() == [first, second]
    assert database.bitstreams("p2") == [second]
    assert database.get_bitstream(second.bitstream_id) == second
    snapshot = database.load()
    assert snapshot.bitstreams == [first, second]
    assert snapshot.max_ids[api.BitstreamRecord] == 2
    changed = dataclasses.replace(first, state="rejected", decided_at=9.5)
    gone = dataclasses.replace(second, state=api.DELETED)
    for _ in range(2):
        database.commit(epoch, api.Changes.of([changed, gone]))
    assert database.bitstreams() == [changed]
    assert database.get_bitstream(second.bitstream_id) is None


@pytest.fixture
def config(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "fpgapool.conf"
    path.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n"
        f"[bitstreams]\ntrusted_keys_dir = {tmp_path}/keys\n"
    )
    return str(path)


def test_sign_and_verify(
    config: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        code = manage.main(["--config-file", config, *arguments])
        return code, capsys.readouterr().out.strip()

    signer = samples.Signer(tmp_path / "keys")
    signer.trust()
    key, file = tmp_path / "private", tmp_path / "mine.bit"
    key.write_bytes(signer.private_pem)
    file.write_bytes(b"a bitstream")
    code, signature = run("bitstream", "sign", "--key", str(key), str(file))
    assert code == 0
    trusted = signatures.TrustedKeys(str(signer.directory))
    checksum = samples.sha256(b"a bitstream")
    assert trusted.verify(signature, checksum) == "release"
    verify = ("bitstream", "verify", "--signature", signature, str(file))
    assert run(*verify) == (0, "Signed with the key release.")
    file.write_bytes(b"another")
    assert run(*verify)[0] == 1
    missing = run("bitstream", "sign", "--key", "/nowhere", str(file))
    assert missing == (2, "")


def test_who_signs_needs_no_state_of_a_service(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mine.bit"
    file.write_bytes(b"a bitstream")
    config = tmp_path / "fpgapool.conf"
    # Nobody can make that directory.
    config.write_text(f"[DEFAULT]\nstate_path = {file}/state\n")
    signer = samples.Signer(tmp_path / "keys")
    key = tmp_path / "private"
    key.write_bytes(signer.private_pem)
    options = ["--config-file", str(config)]
    sign = ["bitstream", "sign", "--key", str(key), str(file)]
    assert manage.main([*options, *sign]) == 0
    assert manage.main([*options, "db", "sync"]) == 2


def test_sweep(
    config: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manage.main(["--config-file", config, "db", "sync"]) == 0
    store = tmp_path / "bitstreams" / "incoming"
    store.mkdir(parents=True)
    (store / "tmpyoung").write_bytes(b"x")
    capsys.readouterr()
    code = manage.main(["--config-file", config, "bitstream", "sweep"])
    assert (code, capsys.readouterr().out) == (0, "0 files removed.\n")
    assert (store / "tmpyoung").exists()
