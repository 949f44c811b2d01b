# SPDX-License-Identifier: Apache-2.0

"""What kind of machine this is."""

from __future__ import annotations

import pathlib

# What Nova, and clouds that are built on it, write into the firmware's tables
# of their instances.
_FIRMWARE = {
    "sys/class/dmi/id/sys_vendor": ("OpenStack Foundation",),
    "sys/class/dmi/id/product_name": ("OpenStack Nova", "OpenStack Compute"),
    "sys/class/dmi/id/chassis_asset_tag": (
        "OpenStack Nova",
        "OpenStack Compute",
        "HUAWEICLOUD",
        "OpenTelekomCloud",
        "SAP CCloud VM",
        "Samsung Cloud Platform",
    ),
}
# For bare metal, and machines without such tables: the source of cloud-init's
# data.
_CLOUD_INIT = "run/cloud-init/cloud-id"
_SOURCES = ("openstack", "configdrive")
#: Links to a config drive, mounted or not.
CONFIG_DRIVES = (
    "dev/disk/by-label/config-2",
    "dev/disk/by-label/CONFIG-2",
)
_MAX_CHARACTERS = 256


def is_instance(root: pathlib.Path = pathlib.Path("/")) -> bool:
    """Return whether this machine is an instance of OpenStack.

    Only files tell, so the answer is immediate. A hypervisor alone is no sign:
    many machines without Nova are virtual.

    :param root: the directory in which the machine's files are.
    """
    return (
        any(_read(root / path) in texts for path, texts in _FIRMWARE.items())
        or _read(root / _CLOUD_INIT) in _SOURCES
        or any((root / path).exists() for path in CONFIG_DRIVES)
    )


def _read(path: pathlib.Path) -> str:
    try:
        with path.open(errors="replace") as stream:
            return stream.read(_MAX_CHARACTERS).strip()
    except OSError:
        return ""
