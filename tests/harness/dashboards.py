# SPDX-License-Identifier: Apache-2.0

"""The dashboard for Grafana, as tests read it."""

from __future__ import annotations

import json
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
PATH = ROOT / "etc" / "grafana" / "fpgapool-dashboard.json"


def load() -> dict[str, Any]:
    """Return the whole document."""
    document: dict[str, Any] = json.loads(PATH.read_text())
    return document


def panels() -> list[dict[str, Any]]:
    """Return the panels that show something."""
    return [one for one in load()["panels"] if one["type"] != "row"]
