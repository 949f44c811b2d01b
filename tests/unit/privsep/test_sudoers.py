# SPDX-License-Identifier: Apache-2.0

"""What the agent's user may run by sudo."""

import pathlib
import re
import textwrap

import pytest

from tests.harness import sudoers

PAGE = (
    pathlib.Path(__file__).parents[3] / "doc/source/admin/link-protection.rst"
)


@pytest.mark.security
def test_the_documented_line_of_sudoers_is_for_the_helper_only():
    """More arguments would choose other code for root to run."""
    (block,) = re.findall(
        r"(?m)^   fpgapool ALL = .*\n(?:     .*\n)+", PAGE.read_text()
    )
    line = re.sub(r"\s*\\\n\s*", " ", textwrap.dedent(block)).strip()
    assert line.startswith("fpgapool ALL = (root) NOPASSWD: ")
    helper = "/usr/bin/privsep-helper --config-file"
    sudoers.check_is_for_the_helper_only(
        line, f"{helper} /etc/fpgapool/fpgapool.conf"
    )
