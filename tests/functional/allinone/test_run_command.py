# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-run`` as people use it in a shell."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import textwrap
import time
import zlib
from collections.abc import Callable
from concurrent import futures

import pytest

from fpgapool import client
from fpgapool.cmd import run as run_command
from tests.functional.allinone import harness
from tests.functional.allinone import tasksite
from tests.harness import programs
from tests.harness import waiting

ROOT = pathlib.Path(__file__).parents[3]
KEY, IV = programs.KEY, programs.IV
DATA = bytes(range(256)) * 300
#: So long a program waits for a pool that is away, with its last attempt.
TOLD_S = 15.0

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def shell(pool: harness.Pool, tmp_path: pathlib.Path) -> Run:
    """Give a function that runs lines of bash, with the command in PATH."""
    program = tmp_path / "bin" / "fpgapool-run"
    program.parent.mkdir()
    words = " ".join(harness.command("run"))
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    directory = tmp_path / "work"
    directory.mkdir()
    (directory / "key").write_text(KEY.hex())
    (directory / "FILE").write_bytes(DATA)
    env = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "FPGAPOOL_SOCKET": pool.front_door(),
        "TMPDIR": str(directory),
    }

    def run(
        script: str, data: bytes = b"", **more: str
    ) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            input=data,
            cwd=directory,
            env={**env, **more},
            capture_output=True,
            timeout=harness.LIMIT_S,
            check=False,
        )

    run.directory = directory  # type: ignore[attr-defined]
    return run


def blocks_of(page: pathlib.Path, begin: str, end: str) -> str:
    """Return the commands between two texts of a page."""
    text = page.read_text().partition(begin)[2].partition(end)[0]
    block = r"::\n\n((?: +.*\n|\n)+)"
    if page.suffix == ".md":
        block = r"```sh\n((?:.*\n)+?)```"
    blocks = re.findall(block, text)
    assert blocks
    return "\n".join(map(textwrap.dedent, blocks))


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        ("README.md", "In another, a 256-bit key", "With `--driver"),
        (
            "doc/source/user/use.rst",
            "On the command line\n",
            ".. _use-completion",
        ),
    ],
)
def test_documented_commands(
    shell: Run, name: str, begin: str, end: str
) -> None:
    """The way to an encrypted file and back, as the pages show it."""
    script = blocks_of(ROOT / name, begin, end).replace(".venv/bin/", "")
    assert "--decrypt" in script
    done = shell(script)
    assert done.returncode == 0, done.stderr.decode()
    directory = shell.directory  # type: ignore[attr-defined]
    assert (directory / "FILE.again").read_bytes() == DATA
    assert (directory / "FILE.enc").read_bytes() != DATA


def test_standard_output_has_nothing_but_the_output(shell: Run) -> None:
    """Messages and report go to standard error; the IV is there, too."""
    done = shell("cat FILE | fpgapool-run aes --key-file key --in - --out -")
    assert done.returncode == 0, done.stderr.decode()
    (iv,) = re.findall(rb"--decrypt --iv ([0-9a-f]{32})\n", done.stderr)
    assert done.stdout == programs.encrypted(
        DATA, iv=bytes.fromhex(iv.decode())
    )
    assert b"node1/board0" in done.stderr


def test_both_ends_may_be_left_out(shell: Run) -> None:
    done = shell(
        f"fpgapool-run --json aes --key-file key --iv {IV.hex()}", DATA
    )
    assert done.stdout == programs.encrypted(DATA)
    assert json.loads(done.stderr)["output_bytes"] == len(DATA)


@pytest.mark.parametrize(
    "script",
    [
        "mkfifo fifo; cat FILE > fifo & fpgapool-run sha --in fifo --out -",
        f"fpgapool-run sha --size-bytes {len(DATA)} --in /dev/stdin < FILE",
        "fpgapool-run sha --in <(cat FILE) --out out; cat out",
    ],
)
def test_input_without_a_name(shell: Run, script: str) -> None:
    done = shell(script)
    assert done.stdout.endswith(hashlib.sha256(DATA).digest()), done.stderr


@pytest.mark.parametrize(
    "script",
    [
        "fpgapool-run sha --size-bytes 10 --in - --out out",
        "mkfifo fifo; cat > fifo <&0 &"
        " fpgapool-run sha --size-bytes 10 --in fifo --out out",
    ],
)
def test_a_pipe_must_have_the_announced_size(shell: Run, script: str) -> None:
    assert shell(script, DATA[:10]).returncode == 0
    out = shell.directory / "out"  # type: ignore[attr-defined]
    assert out.read_bytes() == hashlib.sha256(DATA[:10]).digest()
    out.unlink()
    done = shell(f"rm -f fifo; {script}", DATA[:11])
    assert (done.returncode, out.exists()) == (1, False)
    assert b"SIZE_MISMATCH: the input is longer than the" in done.stderr


def test_files_of_proc_are_read_to_their_end(shell: Run) -> None:
    done = shell("fpgapool-run copy --in /proc/version --out -")
    assert done.stdout == pathlib.Path("/proc/version").read_bytes()


def test_a_device_has_no_size(shell: Run) -> None:
    done = shell("fpgapool-run sha --in /dev/zero --size-bytes 70000 --out -")
    assert done.stdout == hashlib.sha256(bytes(70000)).digest()


def test_a_redirected_output_keeps_what_it_had(shell: Run) -> None:
    done = shell("echo old > out; fpgapool-run copy --in FILE >> out; cat out")
    assert done.stdout == b"old\n" + DATA


def test_empty_input(pool: harness.Pool) -> None:
    """Where the function is defined for it, also on the CPU."""
    cipher = {"key": KEY, "iv": IV}
    for accelerator, params, expected in (
        ("sha", {}, hashlib.sha256().digest()),
        ("aes", cipher, b""),
        ("fft", {"frame_samples": 8}, b""),
        ("gzip", {}, zlib.compress(b"", wbits=31)),
        ("aes-cbc", cipher, None),
    ):
        outputs = [
            bytes(
                client.run_buffer(
                    accelerator,
                    b"",
                    params=params,
                    front_door=door,
                    fallback="cpu",
                )[0]
            )
            for door in (pool.front_door(), "/nonexistent")
        ]
        assert outputs[0] == outputs[1]
        assert expected is None or outputs[0] == expected
    # A whole block of padding.
    assert len(outputs[0]) == 16


def test_gzip_as_people_know_it(shell: Run) -> None:
    """FILE.gz is as private and as old as FILE, which stays."""
    done = shell(
        "chmod 600 FILE; touch -d 2020-01-02 FILE\n"
        "fpgapool-run gzip --param level=9 FILE\n"
        "stat -c '%a %Y' FILE FILE.gz | uniq | wc -l\n"
        "gunzip --keep --stdout FILE.gz | cmp - FILE; gzip --test FILE.gz\n"
        "fpgapool-run gzip FILE"
    )
    assert done.returncode == 2
    assert b"FILE.gz already exists; --force replaces it" in done.stderr
    assert done.stdout.endswith(b"\n1\n")
    done = shell("echo abc > FILE; fpgapool-run gzip -f FILE; zcat FILE.gz")
    assert done.stdout.endswith(b"\nabc\n"), done.stderr.decode()


def test_sha_as_people_know_it(shell: Run) -> None:
    done = shell(
        "fpgapool-run sha FILE > SUMS; fpgapool-run sha - < FILE >> SUMS\n"
        "sha256sum --check SUMS < FILE; cat SUMS"
    )
    digest = hashlib.sha256(DATA).hexdigest()
    assert done.stdout.decode().endswith(f"{digest}  FILE\n{digest}  -\n")
    done = shell("fpgapool-run sha --param algorithm=sha1 FILE | sha1sum -c")
    assert done.stdout == b"FILE: OK\n", done.stderr.decode()


def test_aes_of_a_file_and_back(shell: Run) -> None:
    done = shell(
        "fpgapool-run aes --key-file key FILE\n"
        "mv FILE OLD; cp FILE.enc x.enc\n"
        "fpgapool-run aes --decrypt --key-file key FILE.enc; cmp OLD FILE\n"
        "cmp -s OLD x.enc || echo differs"
    )
    assert done.stdout.endswith(b"differs\n"), done.stderr.decode()


def test_parameters_are_what_the_schema_says(shell: Run) -> None:
    """Also on the CPU."""
    script = (
        "head -c 640 /dev/zero > zero; fpgapool-run fft --fallback cpu"
        " --param frame_samples=8 --param inverse=true --param norm=ortho"
        " zero --out - | cmp - zero"
    )
    for more in ({}, {"FPGAPOOL_SOCKET": "/nonexistent"}):
        done = shell(script, **more)
        assert done.returncode == 0, done.stderr.decode()
    done = shell("fpgapool-run gzip --param level=10 FILE")
    assert b"INVALID_PARAMS: params.level: must be at most 9" in done.stderr


def test_cbc_and_back_without_secrets_in_the_command_line(shell: Run) -> None:
    done = shell(
        "fpgapool-run aes-cbc --param-file key=key --in FILE --out x\n"
        "fpgapool-run aes-cbc --decrypt --key-file key --in x --out y\n"
        "cmp FILE y\n"
        "fpgapool-run aes-cbc --key-file key --iv-file x.iv --in x --out z"
    )
    # The last one forgot --decrypt.
    assert done.returncode == 2
    assert b"x seems to be encrypted: x.iv exists" in done.stderr
    assert not (shell.directory / "z").exists()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ("copy --in none --out x", "FILE_ERROR", "none"),
        ("copy --in FILE --out none/x", "FILE_ERROR", "none/x"),
        ("aes --key-file key --in FILE --out no/x", "FILE_ERROR", "no/x.iv"),
        ("copy --in FILE --out /dev/full", "FILE_ERROR", "/dev/full"),
        ("copy --in . --out x", "FILE_ERROR", "."),
        ("copy --size-bytes 9 --in . --out x", "FILE_ERROR", "."),
        ("nosuch --in FILE --out x", "UNKNOWN_ACCELERATOR", "nosuch"),
        ("gzp FILE --out x", "UNKNOWN_ACCELERATOR", "did you mean gzip?"),
        ("gzip --param level=x FILE --out x", "INVALID_PARAMS", "an integer"),
        ("copy --key-file key --in FILE --out x", "INVALID_PARAMS", "params"),
        (
            "aes-cbc --key-file key --param direction=up --dry-run --in FILE",
            "INVALID_PARAMS",
            "params.direction",
        ),
        ("copy --nosuch --in FILE --out x", "INVALID_USAGE", "--nosuch"),
        ("copy --size-bytes 999999 --in FILE --out x", "SIZE_MISMATCH", ""),
        ("copy --size-bytes 10 --in FILE --out x", "SIZE_MISMATCH", "76800"),
        ("copy --size-bytes 0 --in FILE --out x", "SIZE_MISMATCH", "76800"),
        (
            "copy --size-bytes 9 --in /proc/version --out x",
            "SIZE_MISMATCH",
            "",
        ),
    ],
)
def test_failures_for_programs(
    pool: harness.Pool,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    code: str,
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text(KEY.hex())
    (tmp_path / "FILE").write_bytes(DATA)
    door = ("--socket", pool.front_door())
    status = run_command.main(["--json", *door, *arguments.split()])
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], status) == (
        code,
        2 if code == "INVALID_USAGE" else 1,
    )
    if code == "FILE_ERROR":
        assert error["message"].startswith(f"{named}: ")
    assert named in error["message"]
    assert not list(tmp_path.glob("*x*"))


def test_list(shell: Run, pool: harness.Pool) -> None:
    text = shell("fpgapool-run --list").stdout.decode()
    assert "aes: 1.2 GB/s at most, 2 of 2 slots free: AES-CTR" in text
    assert "\n    [direction]: Whether to encrypt or decrypt; " in text
    door = pool.front_door()

    def free() -> int:
        found = client.accelerators(front_door=door)
        return next(one.free_slots for one in found if one.name == "sha")

    with client.acc_open("copy", 1, front_door=door):
        waiting.wait_until(lambda: free() == 1, "the slot is in use")


@pytest.mark.long
@pytest.mark.parametrize("accelerator", ["aes --key-file key", "sha"])
def test_a_pool_that_dies_for_good(
    accelerator: str, tmp_path: pathlib.Path
) -> None:
    """Is told soon, with and without a slot."""
    (tmp_path / "key").write_text(KEY.hex())
    with harness.short_directory() as run_dir:
        with harness.Pool(
            run_dir, "--boards=1", "--slots=1", "--unlimited"
        ) as pool:
            pool.wait_until_ready()
            commands = [_waiting(pool, accelerator, tmp_path) for _ in "ab"]
            harness.Processes(run_dir).kill()
            began_s = time.monotonic()
            for one in commands:
                assert one.stderr is not None
                # communicate() would end the input.
                error = one.stderr.read()
                assert one.wait(harness.LIMIT_S) == 1
                assert (
                    "does not respond; reconnecting, will give up at " in error
                )
            assert time.monotonic() - began_s < 3 * TOLD_S


@pytest.mark.long
def test_a_pool_that_dies_under_a_group(tmp_path: pathlib.Path) -> None:
    """Is told as with a session; a time limit counts, too."""
    with harness.short_directory() as run_dir:
        with harness.Pool(
            run_dir, "--boards=1", "--slots=1", "--unlimited", "--api-port=0"
        ) as pool:
            url = pool.wait_until_ready()["api_url"]
            site = tasksite.Site(pool, url, pathlib.Path(run_dir))
            site.user.create_group(name="render", accelerator="copy", size=1)
            commands = {}
            for code, limit in (
                ("FRONT_DOOR_UNAVAILABLE", ""),
                ("TIMEOUT", "--timeout 10"),
            ):
                one = commands[code] = _start(
                    pool,
                    "copy --group render --in /dev/zero --out -"
                    f" --size-bytes 1000000000000 {limit}",
                    tmp_path,
                )
                assert one.stdout is not None
                # There is output, which nobody else will read.
                assert one.stdout.read(1)
            harness.Processes(run_dir).kill()
            began_s = time.monotonic()
            # Who waits for its output to be read sees no time pass:
            # both are read at once.
            with futures.ThreadPoolExecutor() as threads:
                ends = {
                    code: threads.submit(
                        one.communicate, timeout=harness.LIMIT_S
                    )
                    for code, one in commands.items()
                }
            for code, one in commands.items():
                _, error = ends[code].result()
                assert one.returncode == 1
                assert (
                    "does not respond; reconnecting, will give up at " in error
                )
                assert f"fpgapool-run: {code}: " in error
            assert time.monotonic() - began_s < 3 * TOLD_S


def _waiting(
    pool: harness.Pool, accelerator: str, directory: pathlib.Path
) -> "subprocess.Popen[str]":
    """Start a command that never ends, and wait until the pool knows it."""
    started = _start(
        pool,
        f"{accelerator} --size-bytes 1000000000 --in /dev/stdin --out out",
        directory,
    )
    assert started.stderr is not None
    for line in started.stderr:
        if "ready" in line or "waiting for a slot" in line:
            return started
    raise AssertionError("it has ended")


def _start(
    pool: harness.Pool, words: str, directory: pathlib.Path
) -> "subprocess.Popen[str]":
    """Start a command in the background."""
    return subprocess.Popen(
        harness.command("run", *words.split()),
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "FPGAPOOL_SOCKET": pool.front_door(),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Output is bytes.
        encoding="latin-1",
    )
