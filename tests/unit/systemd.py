# SPDX-License-Identifier: Apache-2.0

"""Units of systemd, and the files beside them."""

import pathlib

from tests.unit.tree import ROOT

ETC = ROOT / "etc"
UNITS = ("fpgapool-agent", "fpgapool-api", "fpgapool-conductor")


class Unit(dict):
    """Sections of a unit; an option that stands twice has both values."""

    def __init__(self, path: pathlib.Path) -> None:
        section = ""
        for line in path.read_text().splitlines():
            if line.startswith("["):
                section = line.strip("[]")
                self[section] = {}
            elif line and not line.startswith("#"):
                name, _, value = line.partition("=")
                self[section].setdefault(name, []).append(value)

    def service(self, name: str) -> str:
        (value,) = self["Service"][name]
        return value


def read_unit(name: str) -> Unit:
    """Return the sections of a service's unit."""
    return Unit(ETC / "systemd" / f"{name}.service")
