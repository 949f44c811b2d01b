# SPDX-License-Identifier: Apache-2.0

"""The samples of the configuration."""

import configparser
import pathlib
import re
import shlex
import subprocess
import sys

import yaml
from oslo_config import cfg
from oslo_privsep import priv_context

from fpgapool import policies
from fpgapool.conf import conductor
from fpgapool.conf import cors
from fpgapool.conf import opts
from fpgapool.conf import quota
from fpgapool.conf import register_opts
from fpgapool.privsep import link
from tests.harness import samples

ROOT = pathlib.Path(__file__).parents[2]
SAMPLES = ROOT / "etc" / "fpgapool"
POLICY_GENERATOR_CONFIG = "etc/fpgapool/fpgapool-policy-generator.conf"
POLICY = SAMPLES / "policy.yaml.sample"
PRODUCTION = SAMPLES / "production.conf.sample"
TLS = SAMPLES / "tls.conf.sample"

PRIVSEP = f"[{opts.PRIVSEP_GROUP}]"
# Of libraries.
NOT_OWN = (PRIVSEP, f"[{cors.GROUP}]")


def _own_options(text: str) -> dict[str, str]:
    """Return the part of each section that fpgapool itself defines.

    The libraries' options, which stand in the sample, too, change with the
    libraries' releases.
    """
    parts = {}
    for section in re.split(r"(?m)^(?=\[)", text):
        title = section.partition("\n")[0]
        for block in re.split(r"(?m)^#\n# From ", section)[1:]:
            namespace, _, options = block.partition("\n")
            if namespace == "fpgapool" and title not in NOT_OWN:
                parts[title] = options
    return parts


def test_sample_has_every_group_of_options() -> None:
    own = _own_options(samples.configuration())
    assert {"[DEFAULT]", "[agent]", "[conductor]", "[scheduler]"} <= set(own)


def test_the_documented_command_writes_the_sample_here(
    tmp_path: pathlib.Path,
) -> None:
    page = (ROOT / "doc/source/reference/configuration.rst").read_text()
    found = re.search(r"(?m)^    (oslo-config-generator (?:.*\\\n)*.*)", page)
    assert found
    installed = "PREFIX/share/fpgapool/etc"
    assert installed in found[1]
    command = found[1].replace(installed, str(ROOT / "etc"))
    command = command.replace("\\\n", "")
    program = pathlib.Path(sys.executable).with_name("oslo-config-generator")
    subprocess.run(
        [program, *shlex.split(command)[1:]],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    [written] = tmp_path.iterdir()
    assert written.name == "fpgapool.conf.sample"
    assert "[conductor]" in written.read_text()


def test_sample_has_the_options_of_the_privileged_process() -> None:
    # They are oslo.privsep's, so their names are all that is compared.
    assert opts.PRIVSEP_GROUP == link.CONFIG_GROUP
    _, found, section = samples.configuration().partition(f"\n{PRIVSEP}\n")
    assert found
    names = re.findall(r"(?m)^#(\w+) = ", re.split(r"(?m)^\[", section)[0])
    assert {option.dest for option in priv_context.OPTS} <= set(names)
    assert "\n#capabilities = CAP_NET_ADMIN\n" in section


def test_sample_has_the_options_that_every_installation_sets() -> None:
    text = samples.configuration()
    for option in ("transport_url", "connection", "host_uuid", "driver"):
        assert re.search(rf"(?m)^#{option} = ", text), option


def test_the_production_sample_is_valid() -> None:
    """It can be read, and projects share the pool fairly in it."""
    conf = cfg.ConfigOpts()
    register_opts(conf)
    conf([], default_config_files=[str(PRODUCTION)])
    assert conf.conductor.fair_share
    assert conf.conductor.max_wait_s > 0
    assert conf.quota.sessions > 0
    parser = configparser.ConfigParser()
    parser.read(PRODUCTION)
    for section, options in {
        "conductor": conductor.conductor_opts,
        "quota": quota.quota_opts,
    }.items():
        names = {option.name for option in options}
        assert set(parser[section]) <= names


def test_the_sample_for_tls_names_options_that_exist() -> None:
    parser = configparser.ConfigParser(
        interpolation=None, default_section="no default section"
    )
    # What is commented out counts, too.
    text = re.sub(r"(?m)^#(?=[a-z_]+ = )", "", TLS.read_text())
    # There is one for each kind of database.
    text = re.sub(r"(?m)^connection = postgresql.*$", "", text)
    parser.read_string(text)
    known = samples.configuration()
    sections = re.split(r"(?m)^\[(.*)\]$", known)
    options = dict(zip(sections[1::2], sections[2::2], strict=True))
    for section in parser.sections():
        for option in parser[section]:
            assert re.search(rf"(?m)^#{option} =", options[section]), option
    assert parser["oslo_messaging_rabbit"]["ssl"] == "true"
    assert "ssl_ca=" in parser["database"]["connection"]


def test_the_policy_sample_is_up_to_date(tmp_path: pathlib.Path) -> None:
    # If it is not: make sample-config
    output = tmp_path / "policy.yaml"
    subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            "from oslo_policy import generator; generator.generate_sample()",
            f"--config-file={POLICY_GENERATOR_CONFIG}",
            f"--output-file={output}",
        ],
        cwd=ROOT,
        check=True,
    )
    assert POLICY.read_text() == output.read_text()


def test_the_policy_sample_has_every_rule() -> None:
    text = POLICY.read_text()
    for rule in policies.list_rules():
        assert f'"{rule.name}": ' in text
    # It changes nothing until somebody does.
    assert yaml.safe_load(text) is None
