# SPDX-License-Identifier: Apache-2.0

"""The demo: all acts, what goes wrong in them, and that nothing is left."""

import os
import pathlib
import random
import re
import signal
from collections.abc import Iterator

import pytest

from demo.acts import comparison
from demo.acts import sharing
from tests.functional.allinone import demos
from tests.functional.allinone import harness
from tests.harness import cases
from tests.harness import waiting

#: For both runs of act two, also where other processes want the processor.
COMPARISON_LIMIT_S = waiting.COMMAND_LIMIT_S


@pytest.fixture
def temporary() -> Iterator[pathlib.Path]:
    """Give the directory that the demo takes for its files."""
    with harness.short_directory() as path:
        yield path


def test_short_run(temporary: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Every file is encrypted and verified, and a picture is drawn."""
    own_file = tmp_path / "own [file]"
    own_file.write_bytes(random.Random(3).randbytes(5_000_000))
    with demos.start_demo(
        temporary,
        tmp_path / "out",
        *("--act=1", "--jobs=14", "--total-mb=14", "--rate-scale=0.02"),
        *("--file", str(own_file)),
    ) as demo:
        output = demo.communicate(timeout=harness.LIMIT_S)[0]
    assert demo.returncode == 0, output
    assert "15/15 done" in output
    assert "all 15 outputs" in output
    assert "own [file]" in output
    for metric in ("ACT", "TCT(95)", "SAR", "DLR", "makespan"):
        assert metric in output
    [energy_j] = re.findall(r"^ energy +(\d\S*) J ", output, re.M)
    assert float(energy_j) > 0
    assert "scaled by 0.02" in output
    assert re.search(r"watch it at http://127\.0\.0\.1:\d+/ui/\n", output)
    picture = tmp_path / "out" / "timeline.png"
    assert str(picture) in output
    assert picture.read_bytes().startswith(b"\x89PNG")
    harness.Processes(temporary).wait_for_end()
    assert os.listdir(temporary) == []


def row_of(output: str, metric: str) -> list[float]:
    """Return the numbers of a line of the table of act two."""
    (line,) = re.findall(rf"^ {re.escape(metric)} .*×.*$", output, re.M)
    return [float(number) for number in re.findall(r"\d+\.\d+", line)[:3]]


@pytest.mark.long
@pytest.mark.alone
def test_same_load_under_fifo_and_wra(
    temporary: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Every output is verified, and the paper's direction shows."""
    with demos.start_demo(temporary, tmp_path / "out", "--act=2") as demo:
        output = demo.communicate(timeout=COMPARISON_LIMIT_S)[0]
    assert demo.returncode == 0, output
    for strategy in ("fifo", "wra"):
        assert f"{strategy}: verified all {comparison.JOBS} outputs" in output
    assert f"scaled by {comparison.RATE_SCALE:g}" in output
    for metric, least in (("ACT", 1.1), ("TCT(95)", 1.0)):
        fifo, wra, factor = row_of(output, metric)
        assert factor == pytest.approx(fifo / wra, rel=0.05)
        assert factor > least, output
    fifo, wra, factor = row_of(output, "DLR")
    assert factor == pytest.approx(wra / fifo, rel=0.1)
    assert "direction shows" in output
    picture = tmp_path / "out" / "fifo-wra.png"
    assert str(picture) in output
    assert picture.read_bytes().startswith(b"\x89PNG")
    harness.Processes(temporary).wait_for_end()
    assert os.listdir(temporary) == []


@pytest.mark.long
@pytest.mark.alone
def test_two_groups_share_slots(
    temporary: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Groups grow and shrink by their load, and no task is lost."""
    with demos.start_demo(temporary, tmp_path / "out", "--act=3") as demo:
        output = demo.communicate(timeout=COMPARISON_LIMIT_S)[0]
    assert demo.returncode == 0, output
    tasks = sum(
        len(own) for of_group in sharing.draw_arrivals(1) for own in of_group
    )
    assert output.count(f"verified the outputs of all {tasks} tasks") == 2
    # That the demo says so if they do not help is tested elsewhere.
    assert "Elastic groups help: " in output, output
    picture = tmp_path / "out" / sharing.PICTURE_NAME
    assert str(picture) in output
    assert picture.read_bytes().startswith(b"\x89PNG")
    harness.Processes(temporary).wait_for_end()
    assert os.listdir(temporary) == []


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(4 * COMPARISON_LIMIT_S)
def test_devices_in_place_of_the_emulator(
    temporary: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Acts one and three verify all outputs of OpenCL devices."""
    with demos.start_demo(
        temporary, tmp_path / "out", "--driver=opencl"
    ) as demo:
        output = demo.communicate(timeout=3 * COMPARISON_LIMIT_S)[0]
    assert demo.returncode == 0, output
    assert "all 40 outputs" in output
    assert "act two is left out: " in output
    assert output.count("verified the outputs of all ") == 2
    assert "not compared" in output
    pictures = {path.name for path in (tmp_path / "out").iterdir()}
    assert pictures == {"timeline.png", sharing.PICTURE_NAME}
    harness.Processes(temporary).wait_for_end()
    assert os.listdir(temporary) == []


@pytest.mark.long
def test_interrupted_act_three_leaves_nothing(
    temporary: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Ctrl-C ends programs and pool."""
    with demos.start_demo(temporary, tmp_path / "out", "--act=3") as demo:
        output = demos.read_until(demo, "fixed sizes")
        # The groups have members: more than a pool of eight workers, of four
        # fork servers and their spare workers.
        waiting.wait_until(
            lambda: len(harness.Processes(temporary)) > 17,
            "desks of groups",
            harness.LIMIT_S,
        )
        processes = harness.Processes(temporary)
        demo.send_signal(signal.SIGINT)
        output += demo.communicate(timeout=harness.LIMIT_S)[0]
    assert demo.returncode == 130, output
    processes.wait_for_end()
    assert os.listdir(temporary) == []


SLOW_FILES = ("--jobs=30", "--total-mb=60", "--rate-scale=0.001")


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "sign"),
    [
        (("--act=1", *SLOW_FILES), " 1/30 done"),
        # Jobs run, jobs wait, and others are still to come.
        (("--act=2",), f"10/{comparison.JOBS} done"),
    ],
    ids=[
        "act one",
        "act two, fifo",
    ],
)
def test_interrupted_run_leaves_nothing(
    temporary: pathlib.Path,
    tmp_path: pathlib.Path,
    options: tuple[str, ...],
    sign: str,
) -> None:
    """Ctrl-C ends jobs and pool."""
    with demos.start_demo(
        temporary,
        tmp_path / "out",
        *options,
    ) as demo:
        output = demos.read_until(demo, sign)
        processes = harness.Processes(temporary)
        demo.send_signal(signal.SIGINT)
        output += demo.communicate(timeout=harness.LIMIT_S)[0]
    assert demo.returncode == 130, output
    assert len(processes) == 19
    processes.wait_for_end()
    assert os.listdir(temporary) == []


@pytest.mark.long
def test_killed_run_leaves_no_processes(
    temporary: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The pool ends even if the demo cannot end it."""
    with demos.start_demo(temporary, tmp_path / "out", "--total-mb=1") as demo:
        demos.read_until(demo, "encrypting")
        processes = harness.Processes(temporary)
        demo.kill()
    assert len(processes) == 19
    processes.wait_for_end()


@pytest.mark.parametrize(
    ("options", "status", "text"),
    cases.some(
        [
            (["--file=/nonexistent"], 1, "INVALID_FILE: /nonexistent"),
            (["--file=/"], 1, "INVALID_FILE: /"),
            (["--file=/dev/null"], 1, "INVALID_FILE: /dev/null"),
            (["--total-mb=1000000"], 1, "NO_SPACE"),
            (["--strategy=none-such"], 1, "unknown strategy 'none-such'"),
            (["--rate-scale=0"], 1, "rate scale"),
            (["--act=4"], 2, "--act"),
            (["--act=2", "--driver=opencl"], 2, "needs the emulator"),
            (["--jobs=0"], 2, "--jobs"),
            (["--seed=-1"], 2, "--seed"),
        ],
        lambda case: case[2] in ("NO_SPACE", "--act"),
    ),
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
    with demos.start_demo(temporary, tmp_path / "out", *options) as demo:
        output = demo.communicate(timeout=harness.LIMIT_S)[0]
    assert demo.returncode == status
    assert text in output
    assert os.listdir(temporary) == []
