# SPDX-License-Identifier: Apache-2.0

"""Operators are told of all options of Tempest's plugin."""

from __future__ import annotations

import re

from fpgapool_tempest_plugin import config
from tests.unit import tree

DOCUMENT = tree.ROOT / "doc" / "source" / "install" / "acceptance.rst"


def test_document_has_all_options_by_their_sections() -> None:
    text = DOCUMENT.read_text()
    table = text[text.index(".. list-table::") : text.index("What it makes")]
    told: dict[str, list[str]] = {}
    for row in re.findall(r"(?m)^   \* - (.+)$", table):
        section = re.fullmatch(r"``\[(.+)\]``", row)
        if section:
            names = told.setdefault(section.group(1), [])
        else:
            names += re.findall(r"``(\w+)``", row)
    assert told == {
        "service_available": [config.service_available.name],
        config.group.name: [option.name for option in config.options],
        config.features_group.name: [one.name for one in config.features],
    }


def test_every_option_says_what_it_means() -> None:
    for option in (
        config.service_available,
        *config.options,
        *config.features,
    ):
        assert option.help
        assert option.help.endswith(".")
