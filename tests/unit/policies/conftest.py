# SPDX-License-Identifier: Apache-2.0

"""Applications without anything real behind them."""

from tests.unit.api.conftest import make_world

__all__ = ["make_world"]
