# SPDX-License-Identifier: Apache-2.0

"""The command line of ``fpgapool-run``, without a pool."""

import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import instance
from fpgapool.cmd import run
from fpgapool.cmd.running import arguments as command_line
from fpgapool.cmd.running import display
from fpgapool.cmd.running import ends
from fpgapool.cmd.running import params

IV = "00112233445566778899aabbccddeeff"
KEY = bytes(range(16))


@pytest.fixture(autouse=True)
def directory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    """Work in a directory with a key, and a file with and without an IV."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("key").write_text(f"{KEY.hex()}\n")
    pathlib.Path("plain").write_bytes(b"abc")
    pathlib.Path("secret").write_bytes(b"xyz")
    pathlib.Path("secret.iv").write_text(f"{IV}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["aes", "--key", IV], "unknown option: --key"),
        (["aes", f"--key={IV}"], "unknown option: --key"),
        (
            ["sha", "--size-byte=1", "a"],
            "unknown option: --size-byte; did you mean --size-bytes?"
            " fpgapool-run --help lists the options",
        ),
        (["sha", "--qwxz"], "unknown option: --qwxz; fpgapool-run --help"),
        (
            ["aes", "a", "b"],
            "unexpected argument 'b' after FILE: one file at a time",
        ),
    ],
)
def test_what_is_unknown_is_named_without_keys(
    words: list[str], told: str
) -> None:
    """--key is no short form of --key-file."""
    with pytest.raises(command_line.UsageError) as caught:
        command_line.parse(words)
    assert told in str(caught.value)
    assert IV not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "copy",
        "--in a --out b",
        "--list copy",
        "copy --in a",
        "copy --in a --out b --param novalue",
        "copy --in a --out b --param-file novalue",
        "copy --in a --out b --param-json n={",
        f"copy --in plain --out b --param-json n={'[' * 5000}",
        "copy --in a --out b --param n=1 --param n=2",
        "copy --in a --out b --timeout soon",
        "copy --in a --out b --size-bytes -1",
        "copy --in a --out b --decrypt",
        "copy --in a --out b --group g --dry-run",
        "copy --in a --out b --group g --priority 1",
        "copy --in . --dry-run",
        "aes --in a --out b",
        "aes --in a --out b --key-file key --param key=00",
        "aes --in a --out b --param key=x --iv 0",
        f"aes --in a --out b --key-file key --iv {IV} --iv-file secret.iv",
        "aes --in a --out b --key-file key --encrypt --decrypt",
        "aes --in plain --out b --key-file key --decrypt",
        "aes --in - --out b --key-file key --decrypt",
        "aes --in secret --out b --key-file key",
        f"aes --in secret --out b --key-file key --iv {IV[::-1]}",
        "aes-cbc --in secret --out b --key-file key --iv-file secret.iv",
        "aes-cbc --in a --out b --key-file key --encrypt"
        " --param direction=decrypt",
    ],
)
def test_wrong_usage(
    words: str, directory: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(directory.iterdir())
    assert run.main(words.split()) == 2
    output = capsys.readouterr()
    assert output.err.startswith("fpgapool-run: INVALID_USAGE: ")
    assert output.err.count("\n") == 1
    assert output.out == ""
    assert run.main(["--json", *words.split()]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert output.err == f"fpgapool-run: INVALID_USAGE: {error['message']}\n"
    assert sorted(directory.iterdir()) == before


@pytest.mark.parametrize(
    "option",
    ["in", "out", "key-file", "iv-file", "socket", "api-url", "group"],
)
def test_names_that_are_empty(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell gives them for variables that are not set."""
    words = ["copy", "--in=plain", "--out=b", "--socket=none", f"--{option}="]
    assert run.main(words) == 2
    error = capsys.readouterr().err
    assert f"argument --{option}: must not be empty" in error


@pytest.mark.parametrize("content", [b"", b"short", b"00" * 17, bytes(33)])
def test_wrong_keys(
    content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    pathlib.Path("key").write_bytes(content)
    assert run.main("aes --key-file key --in a --out b".split()) == 2
    assert "key: not a key" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "aes --key-file long --in a --out b",
            "--key-file long: longer than 65536 bytes; a key has 16, 24 or 32"
            " bytes, or twice as many hexadecimal digits",
        ),
        (
            "aes --key-file key --iv-file long --in a --out b",
            "--iv-file long: longer than 65536 bytes",
        ),
        (
            "x --param-file s=long --in a --out b",
            "--param-file long: longer than 65536 bytes",
        ),
    ],
)
def test_files_of_parameters_that_are_too_long(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pathlib.Path("key").write_bytes(bytes(16))
    pathlib.Path("long").write_bytes(bytes(65_537))
    assert run.main(words.split()) == 2
    assert capsys.readouterr().err == (
        f"fpgapool-run: INVALID_USAGE: {told}\n"
    )


def test_output_that_is_a_directory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pathlib.Path("place").mkdir()
    words = "copy --in plain --out place --socket none"
    assert run.main(words.split()) == 2
    assert capsys.readouterr().err == (
        "fpgapool-run: INVALID_USAGE: the output place is a directory; --out"
        " takes a file\n"
    )


def test_missing_key_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main("aes --key-file none --in a --out b".split()) == 1
    assert capsys.readouterr().err == (
        "fpgapool-run: FILE_ERROR: none: No such file or directory\n"
    )


def test_files_that_are_no_texts(capsys: pytest.CaptureFixture[str]) -> None:
    words = "copy --in a --out b --param-file n=value".split()
    for content in (b"\xff", b"a" * 70_000):
        pathlib.Path("value").write_bytes(content)
        assert run.main(words) == 2
        assert "value: " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_options_that_end_it(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([option]) == 0
    assert capsys.readouterr().out


def prepared(words: str) -> params.Prepared:
    """Return the parameters that a command line gives."""
    parsed = command_line.parser().parse_args(words.split())
    command_line.check(parsed)
    return params.prepare(parsed, parsed.source)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("aes --key-file key --in secret --decrypt", {"iv": IV}),
        (f"aes --key-file key --in secret --iv {IV.upper()}", {"iv": IV}),
        ("aes --key-file key --in secret --iv-file secret.iv", {"iv": IV}),
        (
            "aes-cbc --key-file key --in secret --decrypt",
            {"iv": IV, "direction": "decrypt"},
        ),
        (
            "aes-cbc --key-file key --in secret --param direction=decrypt",
            {"iv": IV, "direction": "decrypt"},
        ),
        (
            f"aes-cbc --key-file key --in plain --encrypt --iv {IV}",
            {"iv": IV, "direction": "encrypt"},
        ),
        # Any other accelerator with such a parameter.
        ("cipher --key-file key --in secret", {}),
        ("cipher --param-file key=key --in plain", {}),
    ],
)
def test_params(words: str, expected: dict[str, str]) -> None:
    found = prepared(words)
    assert found == params.Prepared({"key": KEY.hex(), **expected})


@pytest.mark.parametrize(
    "words",
    [
        "aes --key-file key --in plain",
        "aes-cbc --key-file key --in plain",
        "aes --key-file key --in secret --encrypt",
        "aes@other --key-file key --in -",
    ],
)
def test_new_ivs(words: str) -> None:
    found, other = prepared(words), prepared(words)
    assert found.new_iv is not None
    assert found.params["iv"] == found.new_iv.hex() != other.params["iv"]


def test_raw_keys() -> None:
    pathlib.Path("key").write_bytes(KEY)
    assert prepared("aes --key-file key --in plain").params["key"] == KEY.hex()
    pathlib.Path("key").write_bytes(bytes(40))
    assert prepared("mac --key-file key --in plain").params == {
        "key": bytes(40).hex()
    }


def test_a_pipe_has_an_end_or_a_size(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ends, "MAX_SPOOLED_BYTES", 1000)
    words = "copy --socket none --out x --in /dev/zero".split()
    assert run.main(words) == 1
    error = capsys.readouterr().err
    assert "INVALID_SIZE: /dev/zero: " in error
    assert "specify --size-bytes" in error
    assert run.main([*words, "--size-bytes", "5"]) == 1
    assert "FRONT_DOOR_UNAVAILABLE" in capsys.readouterr().err


def test_copies_of_pipes_are_as_private_as_those(
    monkeypatch: pytest.MonkeyPatch, directory: pathlib.Path
) -> None:
    """They have no name, so that nothing is left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    os.mkfifo("fifo")
    before = sorted(directory.iterdir())
    with subprocess.Popen(["cp", "plain", "fifo"]):
        with ends.contextlib.ExitStack() as stack:
            stream, size_bytes = ends.open_source("fifo", None, stack)
            assert (stream.read(), size_bytes) == (b"abc", 3)
            assert sorted(directory.iterdir()) == before


def test_why_another_slot_is_tried_is_told_each_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = display.Display(quiet=False)
    for state, message in (
        ("PREPARING", ""),
        ("PREPARING", "slot a board0 1 failed: no clock"),
        ("PREPARING", "slot a board0 2 failed: no clock"),
        ("QUEUED", "slot a board0 2 failed: no clock"),
        ("READY", ""),
    ):
        shown.on_state(
            run.client.SessionView(
                session_id="s",
                state=state,
                reason="PROGRAM_FAILED" if message else "",
                message=message,
            )
        )
    assert capsys.readouterr().err.splitlines() == [
        "fpgapool-run: preparing",
        "fpgapool-run: preparing: slot a board0 1 failed: no clock;"
        " trying another",
        "fpgapool-run: preparing: slot a board0 2 failed: no clock;"
        " trying another",
        "fpgapool-run: waiting for a slot: slot a board0 2 failed: no clock;"
        " trying another",
        "fpgapool-run: ready",
    ]


def test_a_set_that_waits_tries_no_other_slot(
    capsys: pytest.CaptureFixture[str],
) -> None:
    display.Display(quiet=False).on_state(
        run.client.SessionView(
            session_id="s",
            state="QUEUED",
            reason="SET_WAITS",
            message="set one of 2 sessions",
        )
    )
    assert capsys.readouterr().err == (
        "fpgapool-run: waiting for a slot: set one of 2 sessions\n"
    )


@pytest.mark.parametrize("words", [["gzip", "+"], ["gzip+"], ["+aes", "F"]])
def test_a_chain_names_each_stage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(words) == 2
    said = capsys.readouterr().err
    assert "name a stage before and after each +" in said


@pytest.mark.parametrize(
    "words", [["gzip", "+", "aes"], ["gzip + aes"], ["gzip+aes"]]
)
def test_a_chain_needs_no_spaces(words: list[str]) -> None:
    found = command_line.parse([*words, "FILE"])
    assert found.stages == ("gzip", "aes")
    assert found.file == "FILE"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--timeout 0", "INVALID_TIMEOUT: --timeout must be "),
        ("--wait-timeout -1", "INVALID_TIMEOUT: --wait-timeout must be "),
        ("--deadline nan", "INVALID_TIMEOUT: --deadline must be "),
        ("--priority 2000", "INVALID_REQUEST: --priority must be "),
        ("--application ?", "INVALID_REQUEST: --application must be 1 to 64"),
        ("--request-id ?", "INVALID_REQUEST_ID: --request-id must be 1 to 64"),
    ],
)
def test_refusals_name_the_options(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = "copy --in plain --out x --socket none"
    assert run.main([*files.split(), *words.split()]) == 1
    assert f"fpgapool-run: {told}" in capsys.readouterr().err


def test_sizes_that_are_refused_name_the_option(
    directory: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "copy --in /dev/zero --out x --socket none --size-bytes".split()
    assert run.main([*words, str(2**64)]) == 1
    assert "INVALID_SIZE: --size-bytes must be" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["%s --in plain --out x", "copy --in plain --out x --group %s"],
)
def test_names_that_are_too_long(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"{words % ('a' * 100_000)} --socket none"
    assert run.main(command.split()) == 1
    error = capsys.readouterr().err
    assert error.startswith("fpgapool-run: INVALID_REQUEST: ")
    assert error.endswith("must be a name of 1 to 255 characters\n")


def test_the_file_of_an_iv_is_named(
    directory: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pathlib.Path("x.iv").mkdir()
    words = "aes --key-file key --in plain --out x --socket none"
    assert run.main(words.split()) == 1
    error = capsys.readouterr().err
    assert error == "fpgapool-run: FILE_ERROR: x.iv: Is a directory\n"


@pytest.mark.parametrize("to_file", [False, True])
def test_standard_output_has_many_names(
    to_file: bool,
    directory: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    with (
        os.fdopen(reading),
        os.fdopen(writing, "w") as pipe,
        open("output", "w") as file,
        open(os.devnull, "w") as null,
    ):
        output = file if to_file else pipe
        name = f"/dev/fd/{output.fileno()}"
        assert ends.destination_of(name) == name
        monkeypatch.setattr(sys, "stdout", output)
        for same in (name, f"/proc/self/fd/{output.fileno()}"):
            assert ends.destination_of(same) == command_line.STANDARD
        for other in ("plain", "none", os.devnull):
            assert ends.destination_of(other) == other
        # Nothing mixes there.
        monkeypatch.setattr(sys, "stdout", null)
        assert ends.destination_of(os.devnull) == os.devnull


def test_reading_the_input_takes_part_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float] = []
    now_s = [100.0]
    monkeypatch.setattr(run.channel.time, "monotonic", lambda: now_s[0])

    def open_source(*_: object) -> tuple[io.BytesIO, int]:
        now_s[0] += 1.5
        return io.BytesIO(b"abc"), 3

    def run_file(*_: object, timeout_s: float, **__: object) -> None:
        given.append(timeout_s)
        raise run.client.OperationTimeout("the time limit was exceeded")

    monkeypatch.setattr(ends, "open_source", open_source)
    monkeypatch.setattr(run.client, "run_file", run_file)
    for limit in ("5", "1"):
        words = f"copy --in plain --out x --timeout {limit}"
        assert run.main(words.split()) == 1
    # 0 would be refused.
    assert given == [3.5, 0.001]


def test_outages_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    shown = display.Display(quiet=False)
    shown.on_away("the pool's front door", 14.2)
    text = capsys.readouterr().err
    assert text.startswith(
        "fpgapool-run: the pool's front door does not respond; reconnecting, "
        "will give up at "
    )
    assert text.endswith(", in 14 s\n")


_IMPORTING = """
import sys, threading, types
from fpgapool.cmd import launch
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "fpgapool.cmd.run":
            print("importing", flush=True)
            threading.Event().wait()
sys.meta_path.insert(0, Finder())
sys.exit(launch.run())
"""


def test_interrupted_imports() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _IMPORTING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert error == "fpgapool-run: CANCELLED: interrupted\n"
    assert process.returncode == 130


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_without_a_pool_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: list[str],
) -> None:
    """--verbose says where it was looked for."""
    for name in ("FPGAPOOL_SOCKET", instance.API_URL, "OS_CLOUD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(frontdoor, "candidate_paths", lambda: ["/nowhere"])
    finder = instance.Finder(is_instance=lambda: False)
    monkeypatch.setattr(instance, "FINDER", finder)
    told = []
    for more in [], ["--verbose"]:
        assert run.main(["--list", *form, *more]) == 1
        told.append("".join(capsys.readouterr()))
    text = (
        "No pool found. Start one: fpgapool-allinone, or set FPGAPOOL_SOCKET,"
        " FPGAPOOL_API_URL or OS_CLOUD"
    )
    assert text in told[0]
    assert text in told[1]
    places = ["/nowhere (No such file or directory)", "169.254.169.254"]
    assert not any(place in told[0] for place in places)
    assert all(place in told[1] for place in places)
