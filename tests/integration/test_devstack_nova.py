# SPDX-License-Identifier: Apache-2.0

"""What the DevStack plugin writes for Nova, read by Nova's own code."""

import json
import os
import pathlib
import subprocess

from tests.functional.devstack import harness
from tests.services import openstack

# Runs in Nova's environment. Prints the values of all options in the file; an
# option that nobody registers is an error.
_READER = """
import configparser
import json
import sys

from keystoneauth1 import loading
from nova import conf as nova_conf
from nova.scheduler import filters
from nova.scheduler import weights
from oslo_log import log

from fpgapool_nova_filters import conf as our_conf
from fpgapool_nova_filters import filters as our_filters
from fpgapool_nova_filters import weights as our_weights

CONF = nova_conf.CONF
log.register_options(CONF)
our_conf.register_opts(CONF)
path = sys.argv[1]
CONF([], project="nova", default_config_files=[path])
for group in ("fpgapool", "vendordata_dynamic_auth"):
    CONF.register_opts(
        loading.get_auth_plugin_conf_options("password"), group=group
    )
# DevStack writes this one for every service; keystoneauth knows it by a newer
# name.
IGNORED = {"interface"}
parser = configparser.ConfigParser(
    interpolation=None, strict=False, default_section="-"
)
parser.read(path)
found = {}
for section in parser.sections():
    values = CONF if section == "DEFAULT" else CONF[section]
    for name in set(parser[section]) - IGNORED:
        found[f"{section}.{name}"] = values[name]
wanted = CONF.filter_scheduler
classes = filters.HostFilterHandler().get_matching_classes(
    wanted.available_filters
)
found["filters"] = [one.__name__ for one in classes]
classes = weights.HostWeightHandler().get_matching_classes(
    wanted.weight_classes
)
found["weighers"] = [one.__name__ for one in classes]
print(json.dumps(found))
"""


def _read(path: pathlib.Path) -> dict:
    result = subprocess.run(
        [str(openstack.VENV / "bin/python"), "-c", _READER, str(path)],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(harness.ROOT),
            "OS_NOVA_DISABLE_EVENTLET_PATCHING": "true",
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found: dict = json.loads(result.stdout.splitlines()[-1])
    return found


def test_nova_knows_every_option(tmp_path):
    sandbox = harness.Sandbox(tmp_path)
    # With the most options that there can be; tls-proxy makes it https.
    sandbox.stack(f"{harness.ALL_IN_ONE},tls-proxy")
    found = _read(sandbox.nova_conf)
    enabled = found["filter_scheduler.enabled_filters"]
    assert enabled[-1] == "FpgaAffinityFilter"
    assert set(enabled) <= set(found["filters"])
    assert "FpgaAffinityWeigher" in found["weighers"]
    assert "RAMWeigher" in found["weighers"]
    assert found["api.vendordata_providers"] == ["StaticJSON", "DynamicJSON"]
    assert found["api.vendordata_dynamic_targets"] == [
        "fpgapool@https://192.0.2.10/fpgapool/v1/vendordata"
    ]
    assert found["fpgapool.region_name"] == "RegionOne"
    for section in ("fpgapool", "vendordata_dynamic_auth"):
        assert found[f"{section}.auth_type"] == "password"
        assert found[f"{section}.username"] == "nova"
