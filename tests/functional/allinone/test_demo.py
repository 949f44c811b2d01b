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

"""The demo: a short run, and the parts that decide whether it is right."""

import os
import pathlib
import random
import signal
import subprocess
from collections.abc import Callable
from collections.abc import Iterator

import numpy as np
import pytest
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

from fpgapool.demo import errors
from fpgapool.demo import verification
from fpgapool.demo import workload
from tests.functional.allinone import harness

TOOLS = sorted({verification.find_tool(), "cryptography"})


@pytest.fixture
def temporary() -> Iterator[pathlib.Path]:
    """Give the directory that the demo takes for its files."""
    with harness.short_directory() as path:
        yield path


def start_demo(
    temporary: pathlib.Path, out: pathlib.Path, *options: str
) -> subprocess.Popen[str]:
    """Run the demo, its files in a directory of the test."""
    return subprocess.Popen(
        harness.command("demo", "--out", str(out), *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,
    )


def test_short_run(temporary: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Every file is encrypted and verified, and a picture is drawn."""
    own_file = tmp_path / "own [file]"
    own_file.write_bytes(random.Random(3).randbytes(5_000_000))
    with start_demo(
        temporary,
        tmp_path / "out",
        *("--jobs=14", "--total-mb=14", "--rate-scale=0.02"),
        *("--file", str(own_file)),
    ) as demo:
        output = demo.communicate(timeout=harness.LIMIT_S)[0]
    assert demo.returncode == 0, output
    assert "15/15 done" in output
    assert "all 15 outputs" in output
    assert "own [file]" in output
    for metric in ("ACT", "TCT(95)", "SAR", "DLR", "makespan"):
        assert metric in output
    assert "scaled by 0.02" in output
    picture = tmp_path / "out" / "timeline.png"
    assert str(picture) in output
    assert picture.read_bytes().startswith(b"\x89PNG")
    harness.Processes(temporary).wait_for_end()
    assert os.listdir(temporary) == []


def test_interrupted_run_leaves_nothing(
    temporary: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Ctrl-C ends jobs and pool."""
    with start_demo(
        temporary,
        tmp_path / "out",
        *("--jobs=30", "--total-mb=60", "--rate-scale=0.001"),
    ) as demo:
        assert demo.stdout is not None
        output = ""
        while " 1/30 done" not in output:
            line = demo.stdout.readline()
            assert line, output
            output += line
        processes = harness.Processes(temporary)
        demo.send_signal(signal.SIGINT)
        output += demo.communicate(timeout=harness.LIMIT_S)[0]
    assert demo.returncode == 130, output
    assert len(processes) == 13
    processes.wait_for_end()
    assert os.listdir(temporary) == []


def test_killed_run_leaves_no_processes(
    temporary: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The pool ends even if the demo cannot end it."""
    with start_demo(temporary, tmp_path / "out", "--total-mb=1") as demo:
        assert demo.stdout is not None
        while "encrypting" not in demo.stdout.readline():
            assert demo.poll() is None
        processes = harness.Processes(temporary)
        demo.kill()
    assert len(processes) == 13
    processes.wait_for_end()


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["--file=/nonexistent"], 1, "INVALID_FILE: /nonexistent"),
        (["--file=/"], 1, "INVALID_FILE: /"),
        (["--file=/dev/null"], 1, "INVALID_FILE: /dev/null"),
        (["--total-mb=1000000"], 1, "NO_SPACE"),
        (["--strategy=none-such"], 1, "unknown strategy 'none-such'"),
        (["--jobs=0"], 2, "--jobs"),
        (["--seed=-1"], 2, "--seed"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_options_are_explained(
    temporary: pathlib.Path,
    tmp_path: pathlib.Path,
    options: list[str],
    status: int,
    text: str,
) -> None:
    """Whatever is wrong is named, and nothing is left."""
    with start_demo(temporary, tmp_path / "out", *options) as demo:
        output = demo.communicate(timeout=harness.LIMIT_S)[0]
    assert demo.returncode == status
    assert text in output
    assert os.listdir(temporary) == []


@pytest.fixture
def make_job(tmp_path: pathlib.Path) -> Callable[..., workload.Job]:
    """Give a function that makes a job with an output."""
    chance = random.Random(11)

    def make(change: Callable[[bytes], bytes]) -> workload.Job:
        # An initial counter block that is about to run over.
        key, iv = chance.randbytes(32), b"\xff" * 16
        data = chance.randbytes(3_000_001)
        context = ciphers.Cipher(
            algorithms.AES(key), modes.CTR(iv)
        ).encryptor()
        source, output = tmp_path / "source", tmp_path / "output"
        source.write_bytes(data)
        output.write_bytes(change(context.update(data)))
        return workload.Job(1, "node1", source, output, len(data), key, iv)

    return make


@pytest.mark.parametrize("tool", TOOLS)
def test_right_output_is_accepted(
    make_job: Callable[..., workload.Job], tool: str
) -> None:
    """An output that is right passes, whatever checks it."""
    checked: list[int] = []
    job = make_job(lambda data: data)
    verification.check_outputs([job], tool, lambda: checked.append(1))
    assert checked == [1]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: b"",
    ],
    ids=["shorter", "longer", "last byte", "first byte", "empty"],
)
def test_wrong_output_is_found(
    make_job: Callable[..., workload.Job],
    tool: str,
    change: Callable[[bytes], bytes],
) -> None:
    """One wrong byte is enough."""
    with pytest.raises(errors.DemoError) as caught:
        verification.check_outputs([make_job(change)], tool, lambda: None)
    assert caught.value.code == errors.WRONG_OUTPUT


@pytest.mark.parametrize("tool", TOOLS)
def test_missing_output_is_found(
    make_job: Callable[..., workload.Job], tool: str
) -> None:
    """No output is not a right output."""
    job = make_job(lambda data: data)
    job.output.unlink()
    with pytest.raises((errors.DemoError, OSError)):
        verification.check_outputs([job], tool, lambda: None)


def test_sizes_differ_and_sum_up() -> None:
    """Sizes are those of a seed, and make up the total."""
    draw = workload.draw_sizes_bytes
    sizes_bytes = draw(40, 10**8, np.random.default_rng(1))
    assert sizes_bytes == draw(40, 10**8, np.random.default_rng(1))
    assert sizes_bytes != draw(40, 10**8, np.random.default_rng(2))
    assert sum(sizes_bytes) == pytest.approx(10**8, rel=1e-3)
    assert len(set(sizes_bytes)) > 20


def test_jobs_come_from_all_hosts(tmp_path: pathlib.Path) -> None:
    """Files are made as asked for, and keys are not repeated."""
    jobs = workload.make_jobs(
        tmp_path, ["a", "b"], [10, 5_000_000, 1], [], np.random.default_rng(1)
    )
    assert [job.host for job in jobs] == ["a", "b", "a"]
    assert [job.source.stat().st_size for job in jobs] == [10, 5_000_000, 1]
    assert len({job.key for job in jobs}) == len({j.iv for j in jobs}) == 3
    assert "key" not in repr(jobs[0])
