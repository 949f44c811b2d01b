# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim generate``: files that can be run, and bad options."""

import pathlib

import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.cmd import sim
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from tests.unit.sim import commands

TRACE = (
    "arrival_s,host,size_bytes,accelerator,tenant\n"
    "0,0,1e9,aes,a\n1,2,5e8,sha,b\n"
)


def generate(path: pathlib.Path, *options: str) -> scenarios.Scenario:
    assert sim.main(["generate", "--output", str(path), *options]) == 0
    return scenario_files.read(path)


def test_defaults_are_the_papers_first_setting(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = generate(tmp_path / "s.json")
    cluster = scenario.cluster
    assert (cluster.hosts, len(cluster.fpga_hosts)) == (100, 50)
    assert cluster.slots_per_device == 4
    assert {each.return_ratio for each in cluster.accelerators.values()} == {1}
    assert len(scenario.jobs) == 5000
    assert list(scenario.strategies) == ["fifo", "sjf", "wa", "ra", "wra"]
    assert scenario.strategies["wra"] == scenarios.StrategyOptions(
        skip_limit=5,
        wait_s_per_byte=1e-8,
        slot_choice="random",
        offer_order="random",
    )
    said = capsys.readouterr().out
    assert "5000 jobs" in said
    assert "load 0.8, mean size 400.0 MB, 210 jobs/s" in said


def test_a_seed_gives_the_same_file(tmp_path: pathlib.Path) -> None:
    contents = []
    for seed in ("3", "3", "4"):
        path = tmp_path / f"{len(contents)}.json"
        generate(path, "--hosts=9", "--boards=4", f"--seed={seed}")
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] != contents[2]


@pytest.mark.parametrize(
    "options",
    [
        "--sizes power-law --alpha 1.3 --max-size-bytes 1e9",
        "--sizes lognormal --median-size-bytes 1e8 --sigma 0.5",
        "--bias 4 --jobs 40 --host-weight 1=3",
        "--duration-s 5 --tenant a=2:0.5 --tenant b=1",
        "--accelerator aes=3 --accelerator sha",
        "--peak-bytes-per-s gzip=5e8 --reconfiguration-s 0.1",
        "--device-idle-w 20 --device-active-w 60 --host-w 200",
        "--remote-limit 1 --skip-limit none --slot-choice least_busy",
    ],
)
def test_what_is_generated_runs(
    options: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    generate(path, "--hosts=6", "--boards=3", *options.split())
    assert sim.main(["run", str(path), "--strategy", "fifo", "wra"]) == 0
    assert "wra" in capsys.readouterr().out


def test_options_reach_the_scenario(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "s.json"
    (tmp_path / "sizes.txt").write_text("1000\n3000\n")
    scenario = generate(
        path,
        *"--hosts 4 --boards 2 --slots-per-device 2 --return-ratio 0".split(),
        *"--dma-bytes-per-s 1e9 --nic-bytes-per-s 5e8".split(),
        *"--peak-bytes-per-s gzip=5e8 --host-w 90 --jobs 30".split(),
        *"--reconfiguration-s 0.5 --name mine --strategy ra wa".split(),
        *"--sizes empirical --tenant a=1 --skip-limit none --wakeups".split(),
        f"--sizes-file={tmp_path / 'sizes.txt'}",
    )
    assert scenario.cluster == scenarios.Cluster(
        hosts=4,
        fpga_hosts=(0, 2),
        accelerators={"gzip": scenarios.AcceleratorProfile(5e8, 0.0)},
        slots_per_device=2,
        dma_bytes_per_s=1e9,
        nic_bytes_per_s=5e8,
        reconfiguration_s=0.5,
        power=scenarios.Power(host_w=90.0),
    )
    assert scenario.name == "mine"
    assert scenario.wakeups
    assert list(scenario.strategies) == ["ra", "wa"]
    assert scenario.strategies["ra"].skip_limit is None
    assert len(scenario.jobs) == 30
    assert {job.size_bytes for job in scenario.jobs} == {1000, 3000}
    assert {job.tenant for job in scenario.jobs} == {"a"}


def test_queues_are_learnt_whatever_the_sizes(tmp_path: pathlib.Path) -> None:
    scenario = generate(tmp_path / "s.json", "--jobs=5", "--sizes=power-law")
    for name in ("wa", "wra"):
        assert scenario.strategies[name].E_bytes is None


def test_arrivals_whatever_the_boards_are(tmp_path: pathlib.Path) -> None:
    """The same jobs for other clusters, to compare these."""
    few, many = (
        generate(
            tmp_path / "s.json",
            *f"--hosts 9 --boards {boards} --duration-s 20".split(),
            "--arrivals-per-s=10",
        ).jobs
        for boards in (2, 7)
    )
    assert [(job.host, job.size_bytes) for job in few] == [
        (job.host, job.size_bytes) for job in many
    ]
    # Rates that are computed from other loads may differ by an ulp.
    assert [job.arrival_s for job in few] == pytest.approx(
        [job.arrival_s for job in many]
    )
    assert len(few) == pytest.approx(200, abs=4 * 200**0.5)


def test_trace(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    scenario = generate(
        tmp_path / "s.json",
        *"--hosts 3 --boards 1 --trace".split(),
        str(tmp_path / "t.csv"),
    )
    assert scenario.jobs == [
        scenarios.JobSpec(0, 0, 1e9, 0.0, "aes", "a"),
        scenarios.JobSpec(1, 2, 5e8, 1.0, "sha", "b"),
    ]
    assert "trace: 2 jobs, mean size 750.0 MB" in capsys.readouterr().out


def test_traces_know_the_rates_of_all_own_accelerators(
    tmp_path: pathlib.Path,
) -> None:
    rows = "".join(f"0,0,1,{name}\n" for name in accelerators.profile_names())
    (tmp_path / "t.csv").write_text(
        "arrival_s,host,run_s,accelerator\n" + rows
    )
    scenario = generate(tmp_path / "s.json", f"--trace={tmp_path / 't.csv'}")
    assert len(scenario.jobs) >= 12
    for job in scenario.jobs:
        profile = accelerators.load_profile(job.accelerator)
        known = scenario.cluster.accelerators[job.accelerator]
        assert known.peak_bytes_per_s == profile.peak_bytes_per_s
        assert job.size_bytes == profile.peak_bytes_per_s


def test_rates_of_other_accelerators(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE + "2,0,1e9,llm,a\n3,0,1e9,sha2,a\n")
    scenario = generate(
        tmp_path / "s.json",
        f"--trace={tmp_path / 't.csv'}",
        *"--peak-bytes-per-s sha2=7 --other-peak-bytes-per-s 9".split(),
    )
    assert {
        name: profile.peak_bytes_per_s
        for name, profile in scenario.cluster.accelerators.items()
    } == {"aes": 1.2e9, "sha": 6e8, "llm": 9, "sha2": 7}


def test_synthetic_jobs_may_request_any_own_accelerator(
    tmp_path: pathlib.Path,
) -> None:
    scenario = generate(tmp_path / "s.json", "--accelerator=gzip", "--jobs=9")
    assert {job.accelerator for job in scenario.jobs} == {"gzip"}


# -- bad input -------------------------------------------------------------

BAD = {
    "--boards 101": "--boards: the number of boards must be from 1",
    "--boards 0": "--boards: must be an integer from 1 to 100000, not 0",
    "--hosts 0": "--hosts: must be an integer from 1 to 100000, not 0",
    "--hosts 999999999999": "--hosts: must be an integer from 1 to 1",
    "--boards 999999999999": "--boards: must be an integer from 1 to",
    "--slots-per-device 1001": "--slots-per-device: must be an integer from",
    "--dma-bytes-per-s 1e16": "--dma-bytes-per-s: must be a number of at most",
    "--peak-bytes-per-s a=1e16": "accelerators.a.peak_bytes_per_s: expected",
    "--return-ratio 1001": "--return-ratio: must be a number from 0 to 1000",
    "--sizes lognormal --median-size-bytes 1e20 --max-size-bytes 1e21": (
        "jobs[0].size_bytes: expected `float` <= 1e+18"
    ),
    "--jobs-per-host 20001": "workload: 2e+06 jobs exceed the limit of 2e+06",
    "--slots-per-device 0": "--slots-per-device: must be an integer from 1",
    "--dma-bytes-per-s 0": "--dma-bytes-per-s: must be a number of at most",
    "--nic-bytes-per-s nan": "--nic-bytes-per-s: must be a number of at most",
    "--return-ratio -1": "--return-ratio: must be a number from 0",
    "--host-w inf": "--host-w: must be a number of at least 0, not inf",
    "--load 0": "--load: must be a number above 0",
    "--load nan": "--load: must be a number above 0",
    "--arrivals-per-s nan": "--arrivals-per-s: must be a number above 0",
    "--jobs 0": "--jobs: must be an integer of at least 1, not 0",
    "--jobs-per-host -3": "--jobs-per-host: must be an integer of at",
    "--duration-s inf": "--duration-s: must be a number above 0",
    "--duration-s 1e-9": "workload: no job arrives",
    "--jobs 99999999999999": "workload: 1e+14 jobs exceed the limit",
    "--bias 0": "--bias: must be a number above 0",
    "--mean-size-bytes 1e6": (
        "--sizes: exponential: s0_bytes and mean_bytes must"
    ),
    "--mean-size-bytes nan": "--sizes: exponential: ",
    "--alpha 2": "--alpha: cannot be used with --sizes exponential",
    "--sizes power-law --alpha -1": "--sizes: power-law: alpha",
    "--sizes lognormal --sigma 0": "--sizes: lognormal: sigma",
    "--sizes empirical": "--sizes: empirical: requires --sizes-file",
    "--sizes empirical --sizes-file none.txt": "none.txt: No such file",
    "--accelerator gpu": "--accelerator: gpu: unknown accelerator 'gpu'",
    "--accelerator aes=x": "--accelerator: aes=x: must be a number, not x",
    "--accelerator aes=0": "workload: accelerators: at least one weight",
    "--accelerator aes=nan": "--accelerator: aes=nan: must be a number",
    "--accelerator aes --accelerator aes": "aes=1: duplicate name 'aes'",
    "--peak-bytes-per-s a": (
        "--peak-bytes-per-s: a: must have the form NAME=NUMBER"
    ),
    "--peak-bytes-per-s a=0": "accelerators.a.peak_bytes_per_s: expected",
    "--host-weight x=1": "--host-weight: x: is not a host number",
    "--host-weight 100=1": (
        "workload: there is no host 100; hosts are numbered 0 to 99"
    ),
    "--tenant a": "--tenant: a: must have the form NAME=NUMBER",
    "--tenant a=1:2": "workload: the board share of tenant 'a'",
    "--tenant a=1:x": "--tenant: a=1:x: must be a number, not x",
    "--strategy best": "unknown strategy 'best'; known strategies: ",
    "--strategy atuo": "unknown strategy 'atuo'; did you mean auto? known ",
    "--remote-limit -1": "--remote-limit: must be an integer from 0 to",
    "--wait-s-per-byte nan": "--wait-s-per-byte: must be a number of",
    "--trace t.csv": "t.csv: No such file or directory",
    "--trace t.csv --bias 1": "--bias: cannot be used with --trace",
    "--trace t.csv --jobs-per-host 1": "--jobs-per-host: cannot be used with",
    "--column id=x": "--column: requires --trace",
}


@pytest.mark.parametrize(("options", "said"), BAD.items(), ids=BAD.keys())
def test_bad_options(
    options: str,
    said: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = commands.refused(
        capsys, "generate", "--output=s.json", *options.split()
    )
    assert said in found
    assert not list(tmp_path.iterdir())


def test_bad_trace(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(TRACE + "0.5,0,none,aes,\n")
    said = commands.refused(
        capsys, "generate", f"--output={tmp_path / 's.json'}", "--trace", trace
    )
    assert said == (
        f"{trace}: line 4, column size_bytes: 'none' is not a number"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--accelerator aes", "the trace names accelerators"),
        ("--hosts 1 --boards 1", "there is no host '2'"),
    ],
)
def test_options_that_do_not_fit_the_trace(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    options: str,
    said: str,
) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(TRACE)
    output = f"--output={tmp_path / 's.json'}"
    assert said in commands.refused(
        capsys, "generate", output, "--trace", trace, *options.split()
    )


def test_output_that_cannot_be_written(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none" / "s.json"
    said = commands.refused(capsys, "generate", "--output", path)
    assert said == f"{path}: there is no directory {path.parent}"


@pytest.mark.parametrize(
    "options", ["--hosts x", "--sizes round", "--seed -1", "--skip-limit x"]
)
def test_options_that_are_none(
    options: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        sim.main(["generate", f"--output={tmp_path / 's'}", *options.split()])
    assert stopped.value.code == 2
    assert options.split()[0] in capsys.readouterr().err
