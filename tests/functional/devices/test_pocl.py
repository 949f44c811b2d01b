# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-manage device`` on a device that computes: PoCL."""

import json

import pytest
import yaml

from fpgapool.accelerators import base as accelerators
from fpgapool.cmd import manage
from fpgapool.drivers import loader
from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl.contents import package
from fpgapool.vocabulary import formats
from tests.harness import pocl

BOARDS = f"""
boards:
- {{name: cpu, platform: {pocl.PLATFORM}, shape: pocl, slots: 2}}
"""


@pytest.fixture
def run(tmp_path, capfd, monkeypatch):
    """Give a function that runs a command, and returns its outcome."""
    for name, value in pocl.environment(tmp_path / "pocl").items():
        monkeypatch.setenv(name, value)
    (tmp_path / "boards.yaml").write_text(BOARDS)
    conf = tmp_path / "fpgapool.conf"
    conf.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}/state\n[agent]\n"
        "driver = opencl\nchunk_bytes = 262144\n"
        f"[opencl]\nboards_file = {tmp_path}/boards.yaml\n"
    )
    monkeypatch.setattr(
        loader,
        "driver_path",
        lambda name: f"fpgapool.drivers.{name}.driver:OpenCLDriver",
    )

    def run_(*argv):
        code = manage.main(
            ["--config-file", str(conf), "device", *argv, "-f", "json"]
        )
        return code, json.loads(capfd.readouterr().out)

    return run_


def _check(run, names):
    chosen = [word for name in names for word in ("--accelerator", name)]
    code, found = run("check", "--size-mib", "0.5", *chosen)
    (device,) = found["devices"]
    assert (device["name"], device["shapes"]) == ("cpu", ["pocl"])
    outcomes = {
        (step["accelerator"], step["name"]): step["outcome"]
        for step in device["steps"]
    }
    # A processor reports no power.
    assert outcomes.pop((None, "sensors")) == "absent"
    assert set(outcomes.values()) == {"passed"}
    assert code == 0
    for name in names:
        for step in ("program", "open", "self-test", "result", "scrub"):
            assert (name, step) in outcomes


def test_kernels_give_the_results_of_software_cores(run):
    _check(run, ["copy", "dtw"])


def test_a_package_is_programmed(run, tmp_path):
    manifest, source = kernels.read("copy")
    path = tmp_path / "copy.package"
    path.write_bytes(package.pack(formats.OPENCL_SOURCE, manifest, source))
    code, found = run("check", "--size-mib", "0.5", "--file", f"copy={path}")
    steps = {step["name"]: step for step in found["devices"][0]["steps"]}
    assert steps["result"]["outcome"] == "passed"
    assert code == 0, steps


@pytest.mark.long
def test_all_kernels_give_the_results_of_software_cores(run):
    _check(run, sorted(kernels.names()))


def test_rates_of_a_device_are_measured(run, tmp_path):
    table, profiles = tmp_path / "platforms.yaml", tmp_path / "profiles"
    code, found = run(
        *("measure", "--seconds", "0.2", "--accelerator", "copy"),
        *("--output", str(table), "--profiles", str(profiles)),
    )
    assert (code, found) == (0, yaml.safe_load(table.read_text()))
    measured = found["platforms"]["pocl"]["accelerators"]["copy"]
    profile = accelerators.read_profile(profiles / "copy.yaml")
    assert profile.peak_bytes_per_s == measured["peak_bytes_per_s"] > 0
    # The device does not measure its power.
    assert profile.platforms == {
        "pocl": {"peak_bytes_per_s": measured["peak_bytes_per_s"]}
    }
    assert measured["return_ratio"] == 1
    assert (measured["idle_w"], measured["active_w"]) == (None, None)
