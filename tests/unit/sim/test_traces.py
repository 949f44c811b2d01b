# SPDX-License-Identifier: Apache-2.0

"""Jobs and sizes from files."""

import pathlib

import pytest

from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import sizes
from fpgapool.sim.inputs import traces

HEADER = "arrival_s,host,size_bytes,accelerator"


def read(tmp_path: pathlib.Path, text: str) -> list[scenarios.JobSpec]:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    return traces.read(path, 3, {"aes", "sha"})


def test_columns_in_any_order(tmp_path: pathlib.Path) -> None:
    jobs = read(
        tmp_path,
        "\ufefftenant, id,accelerator,size_bytes,host,arrival_s\r\n"
        'a,7,aes,1e6,2,0.5\r\n\r\n"b, c",3,sha,5,,0.5\r\n',
    )
    assert jobs == [
        scenarios.JobSpec(7, 2, 1e6, 0.5, "aes", "a"),
        scenarios.JobSpec(3, None, 5.0, 0.5, "sha", "b, c"),
    ]


def test_priorities_and_deadlines(tmp_path: pathlib.Path) -> None:
    jobs = read(
        tmp_path,
        f"{HEADER},priority,deadline_s\n0,0,1,aes,-3,2.5\n1,1,1,aes,,\n",
    )
    assert [(job.priority, job.deadline_s) for job in jobs] == [
        (-3, 2.5),
        (0, None),
    ]


def test_ids_count_where_there_are_none(tmp_path: pathlib.Path) -> None:
    jobs = read(tmp_path, f"{HEADER}\n0,0,1,aes\n1,1,1,aes\n")
    assert [job.id for job in jobs] == [0, 1]
    assert jobs[0].tenant == ""


BAD = {
    "empty": ("", "is empty"),
    "blank": ("\n \n", "is empty"),
    "no jobs": (f"{HEADER}\n", "contains no jobs"),
    "missing": ("arrival_s,host\n", "line 1: missing columns: size_bytes"),
    "unknown": (
        f"{HEADER},colour\n",
        "line 1: unknown column 'colour'; known columns:",
    ),
    "column twice": (
        f"{HEADER},host\n",
        "line 1: duplicate column 'host'",
    ),
    "short": (f"{HEADER}\n0,0,1\n", "line 2: has 3 values for 4 columns"),
    "unsorted": (
        f"{HEADER}\n2,0,1,aes\n1,0,1,aes\n",
        "line 3, column arrival_s: 1 is earlier than the previous job's 2",
    ),
    "half a priority": (
        f"{HEADER},priority\n0,0,1,aes,1.5\n",
        "line 2, column priority: '1.5': expected `int`",
    ),
    "a high priority": (
        f"{HEADER},priority\n0,0,1,aes,1001\n",
        "line 2, column priority: '1001': expected `int` <= 1000",
    ),
    "no time": (
        f"{HEADER},deadline_s\n0,0,1,aes,0\n",
        "line 2, column deadline_s: '0': expected `float` > 0",
    ),
    "early": (f"{HEADER}\n-1,0,1,aes\n", "line 2, column arrival_s: '-1'"),
    "never": (f"{HEADER}\ninf,0,1,aes\n", "line 2, column arrival_s: 'inf'"),
    "negative": (f"{HEADER}\n0,0,-5,aes\n", "line 2, column size_bytes: '-5'"),
    "zero": (f"{HEADER}\n0,0,0,aes\n", "line 2, column size_bytes: '0'"),
    "nan": (f"{HEADER}\n0,0,nan,aes\n", "line 2, column size_bytes: 'nan'"),
    "text": (
        f"{HEADER}\n0,0,big,aes\n",
        "size_bytes: 'big': expected `float`",
    ),
    "no size": (f"{HEADER}\n0,0,,aes\n", "size_bytes: '': expected `float`"),
    "host": (
        f"{HEADER}\n0,3,1,aes\n",
        "line 2, column host: there is no host 3; hosts are numbered 0 to 2",
    ),
    "no host": (f"{HEADER}\n0,node1,1,aes\n", "column host: 'node1'"),
    "huge": (f"{HEADER}\n0,{'9' * 30},1,aes\n", "column host: '9"),
    "accelerator": (
        f"{HEADER}\n0,0,1,gpu\n",
        "line 2, column accelerator: unknown accelerator 'gpu'; "
        "known accelerators: "
        "aes, sha",
    ),
    "id twice": (
        f"id,{HEADER}\n4,0,0,1,aes\n4,0,0,1,aes\n",
        "line 3, column id: 4 is used twice, first in line 2",
    ),
    "no id": (f"id,{HEADER}\n,0,0,1,aes\n", "line 2, column id: ''"),
    "quotes": (f'{HEADER}\n0,0,"1"x,aes\n', "line 2: "),
    "open quotes": (f'{HEADER}\n0,0,"1,aes\n', "line 2: "),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD.keys())
def test_bad_traces(tmp_path: pathlib.Path, text: str, said: str) -> None:
    with pytest.raises(errors.InputError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 't.csv'}: ")
    assert said in str(caught.value)


def test_not_text(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"arrival_s\xff")
    with pytest.raises(errors.InputError, match="byte 9"):
        traces.read(path, 3, {"aes"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# bytes\n5\n\n 2e6 # large\n", [5.0, 2e6]),
        ("id,size_bytes\n1,5\n\n2,6.5\n", [5.0, 6.5]),
    ],
)
def test_sizes(
    tmp_path: pathlib.Path, text: str, expected: list[float]
) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text(text)
    assert sizes.read(path) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "contains no sizes"),
        ("# none\n", "contains no sizes"),
        ("size_bytes\n", "contains no sizes"),
        ("5\n-1\n", "line 2: -1 is not a finite number above 0"),
        ("5\nnan\n", "line 2: nan"),
        ("5 MB\n", "line 1: '5 MB' is not a number"),
        ("id,size_bytes\n1,5\n2\n", "line 3: '' is not a number"),
    ],
)
def test_bad_sizes(tmp_path: pathlib.Path, text: str, said: str) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text(text)
    with pytest.raises(errors.InputError) as caught:
        sizes.read(path)
    assert f"{path}: {said}" in str(caught.value)
