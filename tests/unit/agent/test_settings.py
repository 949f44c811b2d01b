# SPDX-License-Identifier: Apache-2.0

"""What an agent takes from its configuration for the driver."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool.agent import settings
from fpgapool.bitstreams import signatures
from fpgapool.common import exception
from fpgapool.drivers import base
from fpgapool.drivers import noop
from fpgapool.vocabulary import codes

PATH = f"{__name__}:TunableDriver"


class TunableDriver(noop.NoopDriver):
    """Boards that an operator can tune."""

    @classmethod
    def options(cls):
        return [cfg.IntOpt("clock_mhz", default=250, min=100)]


def conf_with(tmp_path: pathlib.Path, text: str) -> cfg.ConfigOpts:
    path = tmp_path / "fpgapool.conf"
    path.write_text(text)
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf([], default_config_files=[str(path)])
    return conf


@pytest.mark.parametrize(
    ("text", "clock_mhz"), [("", 250), ("[tunable]\nclock_mhz = 300\n", 300)]
)
def test_a_driver_gets_its_options(tmp_path, text, clock_mhz):
    conf = conf_with(tmp_path, text)
    for _ in range(2):
        got = settings.options_of_driver(conf, "tunable", PATH)
        assert got == {"clock_mhz": clock_mhz}


@pytest.mark.parametrize("value", ["fast", "99"])
def test_a_value_that_does_not_suit_is_refused(tmp_path, value):
    conf = conf_with(tmp_path, f"[tunable]\nclock_mhz = {value}\n")
    with pytest.raises(exception.ConfigurationError) as caught:
        settings.options_of_driver(conf, "tunable", PATH)
    assert "clock_mhz" in str(caught.value)


def test_a_driver_without_options_gets_none(tmp_path):
    path = f"{noop.__name__}:NoopDriver"
    conf = conf_with(tmp_path, "[noop]\nanything = 1\n")
    assert settings.options_of_driver(conf, "noop", path) == {}


@pytest.mark.parametrize(
    "path", ["nowhere:Driver", f"{__name__}:PATH", f"{__name__}:Missing", ""]
)
def test_what_is_no_driver_is_refused(tmp_path, path):
    with pytest.raises(base.DriverError) as caught:
        settings.options_of_driver(conf_with(tmp_path, ""), "none", path)
    assert caught.value.code == codes.DRIVER_UNKNOWN


def test_a_name_that_no_host_can_have_is_refused(tmp_path):
    conf = conf_with(
        tmp_path,
        "[DEFAULT]\nhost_name = a other=acc-x\n[agent]\ndriver = noop\n",
    )
    with pytest.raises(exception.ConfigurationError, match="host_name 'a oth"):
        settings.AgentSettings.from_conf(conf)


def test_drivers_know_which_signatures_the_host_requires():
    made = settings.AgentSettings(
        host_uuid="u",
        host_name="h",
        state_path="/state",
        driver_name="noop",
        driver_path=PATH,
        trusted_keys=signatures.TrustedKeys("/keys"),
        signature_required=True,
    )
    found = settings.driver_settings(made)
    assert found["signature_required"] is True
    assert found["trusted_keys_dir"] == "/keys"
    made = dataclasses.replace(made, trusted_keys=None)
    assert settings.driver_settings(made)["trusted_keys_dir"] is None
