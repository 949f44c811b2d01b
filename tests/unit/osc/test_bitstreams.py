# SPDX-License-Identifier: Apache-2.0

"""Commands for bitstreams."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import pathlib
import signal
import sys
from typing import Any

import pytest
from openstack.test import fakes as sdk_fakes
from osc_lib import exceptions

from fpgapool.osc.sdk import library as sdk
from fpgapool.osc.v1 import bitstream
from tests.unit.osc import fakes

DATA = b"a bitstream"
ID = fakes.SESSION_ID
OTHER_ID = ID[:-1] + "2"


@pytest.fixture
def app() -> fakes.App:
    made = fakes.App()
    found = sdk_fakes.generate_fake_resource(
        sdk.Bitstream, id=ID, accelerator="m", version="3", shapes=["small"]
    )
    for method in ("create", "upload", "get", "update", "approve"):
        getattr(made.client, f"{method}_bitstream").side_effect = (
            lambda *arguments, **options: found
        )
    return made


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    file = tmp_path / "mine.bit"
    file.write_bytes(DATA)
    return str(file)


def test_what_is_brought(
    app: fakes.App, path: str, tmp_path: pathlib.Path
) -> None:
    signature = tmp_path / "mine.sig"
    signature.write_text("c2ln\n")
    sent: list[bytes] = []
    upload = app.client.upload_bitstream.side_effect

    def keep(made: Any, file: io.BufferedReader) -> Any:
        sent.append(file.read())
        return upload()

    app.client.upload_bitstream.side_effect = keep
    app.rows(
        bitstream.CreateBitstream,
        "a name",
        "--accelerator=mine",
        "--shape=small",
        "--shape=medium",
        f"--file={path}",
        f"--signature={signature}",
        "--bitstream-version=2",
        '--profile={"peak_bytes_per_s": 1}',
        "--property=vendor=x",
        "--public",
    )
    app.client.create_bitstream.assert_called_once_with(
        accelerator="mine",
        name="a name",
        shapes=["small", "medium"],
        signature="c2ln",
        version="2",
        profile={"peak_bytes_per_s": 1},
        properties={"vendor": "x"},
        visibility="public",
        checksum_sha256=hashlib.sha256(DATA).hexdigest(),
    )
    assert sent == [DATA]


def test_standard_input(
    app: fakes.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(DATA))
    monkeypatch.setattr(sys, "stdin", stdin)
    arguments = ("--accelerator=mine", "--declaration", "--file=-")
    app.rows(bitstream.CreateBitstream, *arguments)
    app.client.create_bitstream.assert_called_once_with(
        accelerator="mine",
        format="declaration",
        checksum_sha256=hashlib.sha256(DATA).hexdigest(),
    )


@pytest.mark.parametrize(
    "file_format", ["opencl-source", "opencl-binary", "xclbin"]
)
def test_a_package_has_its_format(
    app: fakes.App, path: str, file_format: str
) -> None:
    arguments = ("--accelerator=mine", f"--file={path}")
    app.rows(
        bitstream.CreateBitstream, *arguments, f"--file-format={file_format}"
    )
    (call,) = app.client.create_bitstream.call_args_list
    assert call.kwargs["format"] == file_format


@pytest.mark.parametrize(
    "options",
    [("--file-format=novelty",), ("--file-format=xclbin", "--declaration")],
)
def test_a_format_is_one_of_those_that_there_are(
    app: fakes.App, path: str, options: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit):
        app.run(
            bitstream.CreateBitstream,
            "--accelerator=mine",
            f"--file={path}",
            *options,
        )
    app.client.create_bitstream.assert_not_called()


def test_a_failed_upload_says_how_to_go_on(app: fakes.App, path: str) -> None:
    app.client.upload_bitstream.side_effect = fakes.refusal(
        503, "STORE_UNAVAILABLE", "away"
    )
    with pytest.raises(exceptions.CommandError) as caught:
        app.run(bitstream.CreateBitstream, "--accelerator=a", f"--file={path}")
    assert f"set --file FILE {ID}" in str(caught.value)


def test_a_file_that_is_not_there(app: fakes.App) -> None:
    with pytest.raises(exceptions.CommandError, match="No such file"):
        app.run(
            bitstream.CreateBitstream, "--accelerator=a", "--file=/nowhere/x"
        )
    app.client.create_bitstream.assert_not_called()


@pytest.mark.parametrize(
    "profile",
    ["[]", "{", "/nowhere", pytest.param('{"a":' * 5000, id="too deep")],
)
def test_what_is_no_profile(
    app: fakes.App, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        app.run(
            bitstream.CreateBitstream,
            "--accelerator=a",
            f"--profile={profile}",
        )
    assert "--profile" in capsys.readouterr().err


def test_all_that_can_be_set(app: fakes.App) -> None:
    app.know_projects({"p2": "id-p2"})
    assert not app.run(
        bitstream.SetBitstream,
        ID,
        "--name=n",
        "--private",
        "--project=p2",
        "--approve",
        "--force",
    )
    app.client.update_bitstream.assert_called_once_with(
        ID, name="n", visibility="private"
    )
    app.client.share_bitstream.assert_called_once_with(ID, "id-p2")
    app.client.approve_bitstream.assert_called_once_with(ID, force=True)
    said = app.stdout.getvalue().splitlines()
    assert [line.partition(":")[0] for line in said] == [
        f"bitstream {ID} changed",
        f"bitstream {ID} shared with project id-p2",
        f"bitstream {ID} approved",
    ]
    assert said[-1].endswith("slots of shape small may run it as m, version 3")
    app.run(bitstream.SetBitstream, ID, "--reject=bad")
    app.client.reject_bitstream.assert_called_once_with(ID, "bad")
    app.run(bitstream.UnsetBitstream, ID, "--project=p2")
    app.client.unshare_bitstream.assert_called_once_with(ID, "id-p2")


@pytest.mark.parametrize(
    ("state", "said"),
    [("unapproved", "approved"), ("approved", "already approved")],
)
def test_a_second_approval_says_so(
    app: fakes.App, state: str, said: str
) -> None:
    app.client.get_bitstream.side_effect = lambda _: sdk.Bitstream(state=state)
    app.run(bitstream.SetBitstream, ID, "--approve")
    assert app.stdout.getvalue().startswith(f"bitstream {ID} {said}: slots")


def test_those_that_cannot_be_deleted_do_not_stop_the_others(
    app: fakes.App,
) -> None:
    app.client.delete_bitstream.side_effect = [
        fakes.refusal(409, "BITSTREAM_IN_USE", "runs"),
        None,
    ]
    with pytest.raises(exceptions.CommandError, match="1 of 2"):
        app.run(bitstream.DeleteBitstream, ID, OTHER_ID)
    assert app.client.delete_bitstream.call_count == 2


def test_a_file_is_saved_when_it_is_whole(
    app: fakes.App, tmp_path: pathlib.Path
) -> None:
    target = tmp_path / "saved.bit"
    app.client.download_bitstream.side_effect = lambda _: iter([b"a", b"b"])
    app.run(bitstream.SaveBitstream, ID, f"--file={target}")
    assert target.read_bytes() == b"ab"

    def broken(_: str) -> Any:
        yield b"c"
        raise fakes.refusal(502, "STORE_FAILED", "lost")

    app.client.download_bitstream.side_effect = broken
    with pytest.raises(exceptions.CommandError):
        app.run(bitstream.SaveBitstream, ID, f"--file={target}")
    assert target.read_bytes() == b"ab"
    assert [one.name for one in tmp_path.iterdir()] == ["saved.bit"]


def test_refusals_are_told(app: fakes.App, path: str) -> None:
    """Also while a file is open: the SDK's errors are those of files, too."""
    app.client.create_bitstream.side_effect = fakes.refusal(
        409, "ACCELERATOR_EXISTS", "there is one"
    )
    for arguments in ([], ["--file", path]):
        with pytest.raises(exceptions.CommandError) as caught:
            app.run(
                bitstream.CreateBitstream, "--accelerator=mine", *arguments
            )
        assert str(caught.value) == "there is one (ACCELERATOR_EXISTS)"


def test_files_that_cannot_be_read_are_named(
    app: fakes.App, path: str
) -> None:
    app.client.upload_bitstream.side_effect = OSError(errno.EIO, "broken")
    for name, text in ((path, "broken"), ("none", "No such file")):
        with pytest.raises(exceptions.CommandError) as caught:
            app.run(
                bitstream.CreateBitstream, "--accelerator=a", "--file", name
            )
        assert str(caught.value).startswith(f"{name}: {text}")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_download_that_a_signal_ends(
    app: fakes.App, tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    def stopped(_: str) -> Any:
        yield b"a"
        assert len(list(tmp_path.iterdir())) == 1
        signal.raise_signal(number)

    app.client.download_bitstream.side_effect = stopped
    with pytest.raises(KeyboardInterrupt):
        app.run(bitstream.SaveBitstream, ID, f"--file={tmp_path / 'saved'}")
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_not_replaced_by_a_file(
    app: fakes.App, tmp_path: pathlib.Path
) -> None:
    target = tmp_path / "pipe"
    os.mkfifo(target)
    with pytest.raises(exceptions.CommandError, match="not a regular file"):
        app.run(bitstream.SaveBitstream, ID, f"--file={target}")
    assert target.is_fifo()
    assert not app.client.download_bitstream.called


def test_a_list(app: fakes.App) -> None:
    found = sdk_fakes.generate_fake_resource(sdk.Bitstream, id=ID)
    app.client.bitstreams.side_effect = lambda **query: iter([found])
    (row,) = app.rows(
        bitstream.ListBitstreams, "--state=approved", "--all-projects"
    )
    assert row["ID"] == ID
    app.client.bitstreams.assert_called_once_with(
        state="approved", all_projects=True
    )
