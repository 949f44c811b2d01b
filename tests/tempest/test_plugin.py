# SPDX-License-Identifier: Apache-2.0

"""Tempest with the plugin, and the rules of Tempest's own tests."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.services import openstack
from tests.tempest import conftest
from tests.tempest.conftest import PLUGIN

#: How many tests there are, at least.
TESTS = 100
#: Only what hangs takes so long: at rest, all of them take minutes.
_LIMIT_S = 1800

_RULES = pathlib.Path(__file__).with_name("flake8.ini")

pytestmark = pytest.mark.timeout(_LIMIT_S + 900)


def test_each_test_has_an_id_of_its_own(tempest: conftest.Tempest) -> None:
    status, output = tempest.run("check-uuid", "--package", PLUGIN)
    assert status == 0, output


def test_rules_of_tempest_hold(tempest: conftest.Tempest) -> None:
    found = tempest.run(
        *("flake8", "--config", str(_RULES), PLUGIN), cwd=openstack.ROOT
    )
    assert found == (0, "")


def test_configuration_fits_the_cloud(tempest: conftest.Tempest) -> None:
    status, output = tempest.run("tempest", "verify-config")
    assert status == 0, output
    assert "fpgapool" in output


def test_all_pass_and_leave_nothing(
    site: conftest.Site, tempest: conftest.Tempest
) -> None:
    before = site.contents()
    status, output = tempest.run(
        *("tempest", "run", "--regex", rf"^{PLUGIN}\."),
        *("--concurrency", "2"),
        limit_s=_LIMIT_S,
    )
    assert status == 0, tempest.log()
    counts = {
        word: int(number)
        for word, number in re.findall(r"- (\w+): +(\d+)", output)
    }
    assert counts["Passed"] >= TESTS
    assert (counts["Failed"], counts["Skipped"]) == (0, 0)
    assert site.contents() == before
