# SPDX-License-Identifier: Apache-2.0

"""Runs ``fpgapool-sim`` in the process of the tests."""

import json
import pathlib
import typing

import pytest

from fpgapool.cmd import sim

CASES = sorted((pathlib.Path(__file__).parents[2] / "cases").glob("*.json"))
#: The one with many jobs.
[LARGEST_CASE] = [path for path in CASES if "60jobs" in path.stem]


def make_scenario(**members: typing.Any) -> dict[str, typing.Any]:
    """A small scenario file, as JSON has it."""
    scenario: dict[str, typing.Any] = {
        "format": "fpgapool-scenario/1",
        "cluster": {
            "hosts": 3,
            "fpga_hosts": [0, 2],
            "accelerators": {
                "aes": {"peak_bytes_per_s": 1.2e9, "return_ratio": 1.0},
                "sha": {"peak_bytes_per_s": 0.6e9},
            },
        },
        "strategies": {"fifo": {}, "wra": {}},
        "jobs": [
            make_job(0, host=0, size_bytes=1e9),
            make_job(1, host=1, arrival_s=0.25, tenant="a"),
            make_job(2, host=2, arrival_s=0.5, accelerator="sha"),
        ],
    }
    return {**scenario, **members}


def make_job(number: int, **members: typing.Any) -> dict[str, typing.Any]:
    """A job of a scenario file."""
    job = {
        "id": number,
        "host": 0,
        "size_bytes": 5e8,
        "arrival_s": 0.0,
        "accelerator": "aes",
    }
    return {**job, **members}


def write(path: pathlib.Path, scenario: dict[str, typing.Any]) -> pathlib.Path:
    """Write a scenario file."""
    path.write_text(json.dumps(scenario))
    return path


def refused(
    capsys: pytest.CaptureFixture[str], *arguments: str | pathlib.Path
) -> str:
    """Run a command that is refused.

    :returns: what it says, without the program's name.
    """
    return said_by(capsys, sim.main, sim.PROGRAM, arguments)


def complaint(
    capsys: pytest.CaptureFixture[str],
    directory: pathlib.Path,
    scenario: dict[str, typing.Any],
    *options: str | pathlib.Path,
    refused: typing.Callable[..., str] = refused,
) -> str:
    """What is said of a scenario that cannot be run, behind its file's name.

    :param refused: runs a command; see above.
    """
    path, out = write(directory / "s.json", scenario), directory / "o.json"
    said = refused(capsys, "run", path, "--output", out, *options)
    assert said.startswith(f"{path}: ")
    assert not out.exists()
    return said.removeprefix(f"{path}: ")


def said_by(
    capsys: pytest.CaptureFixture[str],
    main: typing.Callable[[list[str]], int],
    program: str,
    arguments: typing.Iterable[str | pathlib.Path],
) -> str:
    """What a program says when it refuses its command line."""
    code: object
    try:
        code = main([str(each) for each in arguments])
    except SystemExit as stopped:
        code = stopped.code
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    *usage, line = without_progress(said.err)
    assert line.startswith(program)
    if usage:
        assert usage[0].startswith("usage: ")
        return line.partition(": error: argument ")[2]
    return line.removeprefix(f"{program}: ")


def without_progress(said: str) -> list[str]:
    """The lines of standard error that do not say how far a command is.

    Those of a slow machine do.
    """
    return [line for line in said.splitlines() if not line.endswith(" so far")]
