# SPDX-License-Identifier: Apache-2.0

"""Jobs from the logs of batch systems."""

import pathlib
import typing

import pytest

from fpgapool.cmd import sim
from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.inputs.traces import mapping
from fpgapool.sim.inputs.traces import reading
from fpgapool.sim.inputs.traces import swf
from tests.unit.sim import logs

FIRST = {
    "swf": ("g4", "7", 1, ""),
    "sacct": ("bio", "ann", 0, "10"),
    "batsim": ("ann", "ann", 0, "a!1"),
}


def read(
    path: pathlib.Path,
    text: str,
    wanted: str | None = None,
    **options: typing.Any,
) -> list[scenarios.JobSpec]:
    path.write_text(text)
    log = reading.read(path, wanted)
    made = mapping.Options(weights={"x": 1.0}, **options)
    return mapping.make_jobs(log, 50, 4, {"x": 1e8}, made).jobs


@pytest.mark.parametrize("name", logs.SAMPLES)
@pytest.mark.parametrize("file", ["log", "log.txt"])
def test_run_times_and_users_become_sizes_and_hosts(
    tmp_path: pathlib.Path, name: str, file: str
) -> None:
    first, second = read(tmp_path / file, logs.SAMPLES[name])
    tenant, user, number, text = FIRST[name]
    assert first == scenarios.JobSpec(
        number, mapping.hashed(user, 50), 1e9, 0.0, "x", tenant, name=text
    )
    assert (second.size_bytes, second.arrival_s) == (2.5e8, 3.5)


@pytest.mark.parametrize("name", logs.SAMPLES)
def test_processors_become_sessions_up_to_a_limit(
    tmp_path: pathlib.Path, name: str
) -> None:
    jobs = read(tmp_path / "log", logs.SAMPLES[name], sessions_per_job=9)
    assert [job.size_bytes for job in jobs] == [1e9, 1e9, 2.5e8]
    assert [job.id for job in jobs] == [0, 1, 2]


@pytest.mark.parametrize("name", logs.SAMPLES)
def test_one_command_reads_each_format(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path, output = tmp_path / "log", tmp_path / "s.json"
    path.write_text(logs.SAMPLES[name])
    command = ["generate", "--trace", str(path), "--output", str(output)]
    assert sim.main(command) == 0
    assert "trace: 2 jobs" in (said := capsys.readouterr().out)
    assert (
        "processors: 1 jobs had more than 1; each became 1 session of" in said
    )
    assert sim.main([*command, f"--trace-format={name}", "--load=0.5"]) == 0
    scenario = scenario_files.read(output)
    span_s = max(job.arrival_s for job in scenario.jobs)
    assert 12.5 / (200 * span_s) == pytest.approx(0.5)


def test_jobs_of_a_kind_have_the_same_accelerator(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "log.swf").write_text(
        "".join(
            f"{at} {at} 0 1 1 -1 -1 1 1 -1 1 {at} 1 {at % 50} 1 1 -1 -1\n"
            for at in range(200)
        )
    )
    log = reading.read(tmp_path / "log.swf")
    peaks = {"a": 1.0, "b": 1.0, "c": 1.0}
    options = mapping.Options(weights={"a": 3.0, "b": 1.0, "c": 0.0})
    jobs = mapping.make_jobs(log, 9, 4, peaks, options).jobs
    used = [job.accelerator for job in jobs]
    assert used[:50] == used[50:100] == used[150:]
    assert 25 <= used[:50].count("a") < 50
    assert "c" not in used


def test_sessions_are_limited(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenarios, "MAX_JOBS", 4)
    with pytest.raises(errors.InputError, match="becomes 5 sessions"):
        read(
            tmp_path / "log",
            logs.SWF.replace("-1 -1 1 60 -1 1 8", "-1 -1 3 60 -1 1 8"),
            sessions_per_job=3,
        )


@pytest.mark.parametrize(
    ("elapsed", "expected_s"),
    [("1-02:03:04", 93784), ("02:03", 123), ("00:00:00.5", 0.5)],
)
def test_elapsed_times_of_slurm(
    tmp_path: pathlib.Path, elapsed: str, expected_s: float
) -> None:
    text = f"Submit|Elapsed\n1800000000|{elapsed}\n"
    [job] = read(tmp_path / "log", text)
    assert job.size_bytes == expected_s * 1e8


BAD = {
    "few": ("swf", "1 2 3\n", "line 1: has 3 values; a job of the Standard"),
    "Slurm's": (
        "swf",
        "JobID|Submit|ElapsedRaw\n",
        "line 1: has 1 values; a job of the Standard Workload Format has 18; "
        "is it another format? --trace-format sacct",
    ),
    "a table": ("swf", "arrival_s,run_s\n", "? --trace-format csv"),
    "word": (
        "swf",
        logs.SWF.replace(" 10 2", " long 2"),
        "line 2, column 4 (run time): 'long' is not a number",
    ),
    "never": (
        "swf",
        logs.SWF.replace("103.5", "nan"),
        "line 5, column 2 (submit time): 'nan' is not a finite number",
    ),
    "huge": (
        "swf",
        logs.SWF.replace(" 10 2", " 1e30 2"),
        "line 2, column 4 (run time): '1e+38': expected `float` <= 1e+18",
    ),
    "no submit": ("sacct", "JobID|Elapsed\n", "line 1: missing columns: Sub"),
    "no elapsed": ("sacct", "JobID|Submit\n", "columns: ElapsedRaw; call sac"),
    "bar": (
        "sacct",
        logs.SACCT.replace("|fold|", "|fo|ld|", 1),
        "line 2: has 9 values for 8 columns; names of jobs may contain |",
    ),
    "elapsed": (
        "sacct",
        logs.SACCT.replace("00:00:10", "ten", 1),
        "line 2, column Elapsed: 'ten' is not [days-]hours:minutes:seconds",
    ),
    "date": (
        "sacct",
        logs.SACCT.replace("2026-03-01T10:00:00", "2026-33-01", 1),
        "line 2, column Submit: '2026-33-01' is neither seconds nor a time",
    ),
    "not json": ("batsim", "{", "line 1 column 2"),
    "no jobs": ("batsim", "{}", "missing required field"),
    "deep": ("batsim", '{"x":' + "[" * 10**5, "is nested too deeply"),
    "text": (
        "batsim",
        logs.BATSIM.replace("103.5", '"soon"'),
        "jobs[1].subtime: expected `float`, got `str`",
    ),
    "profile": (
        "batsim",
        logs.BATSIM.replace('"profile": "p"', '"profile": "q"'),
        "jobs[1].profile: there is no profile 'q'",
    ),
    "no time": (
        "batsim",
        logs.BATSIM.replace('"walltime": 2.5', '"walltime": -1'),
        "jobs[1].profile: profile 'p' of type 'parallel_homogeneous' has no "
        "time; give the job a walltime",
    ),
    "large": (
        "batsim",
        logs.BATSIM.replace('"delay": 10', '"delay": 1e30'),
        "jobs[0].profile: '1e+38': expected `float` <= 1e+18",
    ),
}


@pytest.mark.parametrize(
    ("name", "text", "said"), BAD.values(), ids=BAD.keys()
)
def test_broken_logs(
    tmp_path: pathlib.Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / "log"
    with pytest.raises(errors.InputError) as caught:
        read(path, text, name)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500


def test_fields_have_the_numbers_of_the_standard() -> None:
    assert len(swf.FIELDS) == 18
    assert swf.FIELDS[10] == "11 (status)"


def test_options_of_tables_are_refused(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text(logs.SWF)
    command = ["generate", "--output", str(tmp_path / "s.json")]
    trace = ["--trace", str(tmp_path / "log")]
    for options, said in (
        ([*trace, "--skip-incomplete"], "this is swf (--trace-format)"),
        ([*trace, "--column=id=x"], "this is swf (--trace-format)"),
        ([*trace, "--column=x"], "--column: x: must have the form NAME="),
        ([*trace, "--sizes=power-law"], "cannot be used with --trace"),
        (["--hash-hosts"], "--hash-hosts: requires --trace"),
        (["--sessions-per-job=2"], "--sessions-per-job: requires --trace"),
    ):
        assert sim.main([*command, *options]) == 2
        assert said in capsys.readouterr().err
