# SPDX-License-Identifier: Apache-2.0

"""Jobs and sizes from tables."""

import gzip
import pathlib
import typing

import pytest

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import sizes
from fpgapool.sim.inputs.traces import mapping
from fpgapool.sim.inputs.traces import reading

HEADER = "arrival_s,host,size_bytes,accelerator"
PEAKS = {"aes": 2e9, "sha": 1e9}


def read(
    tmp_path: pathlib.Path,
    text: str,
    *,
    skips: bool = False,
    renamed: dict[str, str] | None = None,
    **options: typing.Any,
) -> list[scenarios.JobSpec]:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    log = reading.read(path, skips=skips, renamed=renamed)
    made = mapping.Options(weights=PEAKS, **options)
    return mapping.make_jobs(log, 3, 4, PEAKS, made).jobs


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


def test_jobs_are_sorted_by_arrival(tmp_path: pathlib.Path) -> None:
    jobs = read(tmp_path, f"{HEADER}\n2,0,1,aes\n1,1,2,aes\n")
    assert [job.arrival_s for job in jobs] == [1, 2]


def test_hosts_with_names_are_numbered_as_they_appear(
    tmp_path: pathlib.Path,
) -> None:
    jobs = read(tmp_path, f"{HEADER}\n0,b7,1,aes\n1,,1,aes\n2,a,1,aes\n")
    assert [job.host for job in jobs] == [0, None, 1]


def test_hashed_hosts_depend_on_nothing_but_their_names(
    tmp_path: pathlib.Path,
) -> None:
    rows = "".join(f"{at},node{at % 9},1,aes\n" for at in range(20))
    jobs = read(tmp_path, f"{HEADER}\n{rows}", hash_hosts=True)
    assert [job.host for job in jobs] == [
        mapping.hashed(f"node{at % 9}", 3) for at in range(20)
    ]
    assert {job.host for job in jobs} == {0, 1, 2}
    # The number that any machine and release computes.
    assert mapping.hashed("node1", 1000) == 838


def test_ids_of_text_become_names(tmp_path: pathlib.Path) -> None:
    jobs = read(tmp_path, f"id,{HEADER}\nx-1,0,0,1,aes\n7,1,0,1,aes\n")
    assert [(job.id, job.name) for job in jobs] == [(0, "x-1"), (1, "7")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1800000000", "1800000002.5"),
        ("2027-01-15T08:00:00", "2027-01-15 08:00:02.5"),
        ("2027-01-15T08:00:00+02:00", "2027-01-15T06:00:02.5Z"),
    ],
)
def test_times_since_1970_are_relative_to_the_first(
    tmp_path: pathlib.Path, first: str, second: str
) -> None:
    jobs = read(tmp_path, f"{HEADER}\n{first},0,1,aes\n{second},0,1,aes\n")
    assert [job.arrival_s for job in jobs] == [0, 2.5]


def test_run_times_stand_for_sizes(tmp_path: pathlib.Path) -> None:
    header = "arrival_s,host,run_s,accelerator"
    rows = "0,0,2,aes\n1,0,0.5,sha\n2,0,0,aes\n"
    jobs = read(tmp_path, f"{header}\n{rows}")
    assert [job.size_bytes for job in jobs] == [4e9, 5e8]
    jobs = read(tmp_path, f"{header}\n{rows}", min_run_s=1.0)
    assert [job.size_bytes for job in jobs] == [4e9, 1e9, 2e9]


def test_columns_of_other_names(tmp_path: pathlib.Path) -> None:
    jobs = read(
        tmp_path,
        "when,user,took,colour,model\n5,1,2,red,aes\n",
        renamed={
            "arrival_s": "when",
            "host": "user",
            "tenant": "user",
            "run_s": "took",
            "accelerator": "model",
        },
    )
    assert jobs == [scenarios.JobSpec(0, 1, 4e9, 5.0, "aes", "1")]


def test_jobs_that_lack_a_value_are_left_out(tmp_path: pathlib.Path) -> None:
    text = f"{HEADER}\n,0,1,aes\n1,,1,aes\n2,0,,aes\n3,0,1,\n"
    jobs = read(tmp_path, text, skips=True)
    assert [job.arrival_s for job in jobs] == [1]


def test_load_is_slot_time_and_stretches_arrivals(
    tmp_path: pathlib.Path,
) -> None:
    """3 jobs need 2 s each; 4 slots are busy for half of 3 s."""
    text = f"{HEADER}\n10,0,4e9,aes\n11,0,2e9,sha\n50,0,4e9,aes\n"
    jobs = read(tmp_path, text, load=0.5)
    assert [job.arrival_s for job in jobs] == [0, 0.075, 3]
    jobs = read(tmp_path, text, load=0.5, max_gap_s=4.0)
    assert [job.arrival_s for job in jobs] == [0, 0.6, 3]
    jobs = read(tmp_path, text, load=0.5, jobs=2)
    assert [job.arrival_s for job in jobs] == [0, 2]


def test_load_needs_time(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.InputError, match="all jobs arrive at once"):
        read(tmp_path, f"{HEADER}\n1,0,1,aes\n1,0,1,aes\n", load=0.5)


def test_tenants_can_be_merged(tmp_path: pathlib.Path) -> None:
    text = f"{HEADER},tenant\n0,0,1,aes,\n1,0,1,aes,x\n2,0,1,aes,x\n"
    jobs = read(tmp_path, text, hash_tenants=5)
    assert jobs[0].tenant == ""
    assert jobs[1].tenant == jobs[2].tenant == f"t{mapping.hashed('x', 5)}"


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
    "both": (f"{HEADER},run_s\n0,0,1,aes,1\n", "only one of them"),
    "close": (f"{HEADER},tenent\n", "did you mean tenant?"),
    "ms": (f"{HEADER}\n1800000000000,0,1,aes\n", "divide them by 1000"),
    "a date": (
        f"{HEADER}\n15-Jan-2027,0,1,aes\n",
        "line 2, column arrival_s: '15-Jan-2027' is neither seconds nor",
    ),
    "a day with an offset": (
        f"{HEADER}\n2027-01-15+08:00,0,1,aes\n",
        "'2027-01-15+08:00' is neither seconds nor",
    ),
    "many hosts": (
        f"{HEADER}\n0,a,1,aes\n1,b,1,aes\n2,c,1,aes\n3,d,1,aes\n",
        "line 5, column host: there is no host 'd': it is the name after the "
        "first 3; give more --hosts, or --hash-hosts",
    ),
    "text id twice": (
        f"id,{HEADER}\na,0,0,1,aes\na,0,0,1,aes\n",
        "line 3, column id: 'a' is used twice, first in line 2",
    ),
    "none ran": (
        "arrival_s,host,run_s,accelerator\n0,0,0,aes\n",
        "none of the 1 jobs ran",
    ),
    "far": (f"{HEADER}\n0,0,1,aes\n2e9,0,1,aes\n", "column arrival_s: "),
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
        "size_bytes: 'big' is not a number",
    ),
    "no size": (f"{HEADER}\n0,0,,aes\n", "size_bytes: '' is not a number"),
    "host": (
        f"{HEADER}\n0,3,1,aes\n",
        "line 2, column host: there is no host '3': hosts are numbered 0 to 2",
    ),
    "huge": (f"{HEADER}\n0,{'9' * 30},1,aes\n", "column host: there is no"),
    "accelerator": (
        f"{HEADER}\n0,0,1,gpu\n",
        "line 2, column accelerator: unknown accelerator 'gpu'; "
        "known accelerators: aes, sha; give others a rate: "
        "--peak-bytes-per-s NAME=RATE",
    ),
    "id twice": (
        f"id,{HEADER}\n4,0,0,1,aes\n4,0,0,1,aes\n",
        "line 3, column id: '4' is used twice, first in line 2",
    ),
    "no id": (f"id,{HEADER}\n,0,0,1,aes\n", "line 2, column id: is empty"),
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
        reading.read(path)


def test_gzip(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv.gz"
    packed = gzip.compress(f"{HEADER}\n0,0,1,aes\n".encode())
    path.write_bytes(packed)
    assert len(reading.read(path).rows) == 1
    path.write_bytes(packed[:-9])
    with pytest.raises(errors.InputError, match="is not a complete gzip file"):
        reading.read(path)


def test_a_small_file_cannot_fill_memory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 1000)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"0" * 100_000))
    with pytest.raises(errors.InputError, match="is larger than"):
        reading.read(path)


def test_the_number_of_jobs_is_limited(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenarios, "MAX_JOBS", 2)
    with pytest.raises(errors.InputError, match="has more than 2 jobs"):
        read(tmp_path, f"{HEADER}\n" + "0,0,1,aes\n" * 3)


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
