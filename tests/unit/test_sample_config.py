# SPDX-License-Identifier: Apache-2.0

"""The sample configuration is what the options' definitions say."""

import configparser
import pathlib
import re
import subprocess
import sys

import pytest
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

ROOT = pathlib.Path(__file__).parents[2]
GENERATOR_CONFIG = "tools/config/fpgapool-config-generator.conf"
SAMPLE = ROOT / "etc" / "fpgapool" / "fpgapool.conf.sample"
POLICY_GENERATOR_CONFIG = "tools/config/fpgapool-policy-generator.conf"
POLICY = SAMPLE.with_name("policy.yaml.sample")
PRODUCTION = SAMPLE.with_name("production.conf.sample")
TLS = SAMPLE.with_name("tls.conf.sample")

PRIVSEP = f"[{opts.PRIVSEP_GROUP}]"
# Of libraries.
NOT_OWN = (PRIVSEP, f"[{cors.GROUP}]")

# A machine with another name: no default may be taken from this one.
GENERATE = """
import socket, sys
socket.gethostname = socket.getfqdn = lambda *_: "some-other-machine"
from oslo_config import generator
generator.main(sys.argv[1:])
"""


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


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give what the generator writes on some other machine."""
    home = tmp_path_factory.mktemp("home")
    output = home / "generated.conf"
    subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            GENERATE,
            f"--config-file={GENERATOR_CONFIG}",
            f"--output-file={output}",
        ],
        cwd=ROOT,
        env={"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "USER": "any"},
        check=True,
    )
    return output.read_text()


def test_sample_is_up_to_date(generated: str) -> None:
    # If it is not: make sample-config
    assert _own_options(SAMPLE.read_text()) == _own_options(generated)


def test_sample_has_every_group_of_options(generated: str) -> None:
    own = _own_options(generated)
    assert {"[DEFAULT]", "[agent]", "[conductor]", "[scheduler]"} <= set(own)


def test_sample_has_the_options_of_the_privileged_process(
    generated: str,
) -> None:
    # They are oslo.privsep's, so their names are all that is compared.
    assert opts.PRIVSEP_GROUP == link.CONFIG_GROUP
    for text in (SAMPLE.read_text(), generated):
        _, found, section = text.partition(f"\n{PRIVSEP}\n")
        assert found
        names = re.findall(r"(?m)^#(\w+) = ", re.split(r"(?m)^\[", section)[0])
        # The sample has those of the newest release.
        assert {option.dest for option in priv_context.OPTS} <= set(names)
        assert "\n#capabilities = CAP_NET_ADMIN\n" in section


def test_sample_has_the_options_that_every_installation_sets() -> None:
    text = SAMPLE.read_text()
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
    known = SAMPLE.read_text()
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
