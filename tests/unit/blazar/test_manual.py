# SPDX-License-Identifier: Apache-2.0

"""The manual's configuration has the plugin's options, with their defaults."""

from __future__ import annotations

import configparser
import re
import tomllib

from fpgapool_blazar import conf
from fpgapool_blazar import wishes
from tests.unit import tree

MANUAL = tree.ROOT / "doc" / "source" / "install" / "blazar.rst"


def _configuration() -> configparser.ConfigParser:
    (block,) = re.findall(
        r"code-block:: ini\n\n((?: {7}.*\n|\n)+)", MANUAL.read_text()
    )
    parser = configparser.ConfigParser()
    parser.read_string(re.sub("(?m)^ +", "", block))
    return parser


def test_options() -> None:
    shown = dict(_configuration()[wishes.RESOURCE_TYPE])
    assert shown == {one.dest: str(one.default) for one in conf.OPTIONS}


def test_the_name_of_the_plugin() -> None:
    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
    entry_points = project["project"]["entry-points"]
    (name,) = entry_points["blazar.resource.plugins"]
    assert name in _configuration()["manager"]["plugins"].split(",")
