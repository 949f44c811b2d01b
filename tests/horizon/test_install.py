# SPDX-License-Identifier: Apache-2.0

"""The commands of the manual do what it says."""

from __future__ import annotations

import json
import re

from tests.horizon import conftest
from tests.horizon import dashboard
from tests.services import openstack

_MANUAL = openstack.ROOT / "doc" / "source" / "install" / "horizon.rst"


def test_what_is_copied() -> None:
    found = re.findall(r"SITE/fpgapool_dashboard/(\S+)", _MANUAL.read_text())
    assert tuple(found) == dashboard.COPIED


def test_static_files(site: conftest.Site) -> None:
    """They are collected, and the templates' scripts and styles compressed."""
    commands = re.findall(r"-m django (.+)", _MANUAL.read_text())
    assert [one.split()[0] for one in commands] == [
        "collectstatic",
        "compress",
    ]
    for one in commands:
        site.horizon.manage(*one.split())
    static = site.horizon.directory / "static"
    manifest = json.loads((static / "dashboard" / "manifest.json").read_text())
    assert manifest
