# SPDX-License-Identifier: Apache-2.0

"""Fixtures of pools with several conductors."""

from __future__ import annotations

from tests.functional.system.conftest import make_cloud
from tests.functional.system.conftest import pytest_runtest_makereport
from tests.functional.system.conftest import rng

__all__ = ["make_cloud", "pytest_runtest_makereport", "rng"]
