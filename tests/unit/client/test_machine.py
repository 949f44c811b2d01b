# SPDX-License-Identifier: Apache-2.0

"""What tells an instance of OpenStack from other machines."""

import pathlib

import pytest

from fpgapool.client.doors import machine

DMI = "sys/class/dmi/id"


def put(root: pathlib.Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{DMI}/product_name", "OpenStack Nova\n"),
        (f"{DMI}/product_name", "OpenStack Compute\n"),
        (f"{DMI}/sys_vendor", "OpenStack Foundation\n"),
        (f"{DMI}/chassis_asset_tag", "OpenTelekomCloud\n"),
        ("run/cloud-init/cloud-id", "openstack\n"),
        ("run/cloud-init/cloud-id", "configdrive\n"),
        ("dev/disk/by-label/config-2", ""),
    ],
)
def test_instances(tmp_path: pathlib.Path, name: str, text: str) -> None:
    put(tmp_path, name, text)
    assert machine.is_instance(tmp_path)


def test_other_machines(tmp_path: pathlib.Path) -> None:
    assert not machine.is_instance(tmp_path)
    put(tmp_path, f"{DMI}/sys_vendor", "QEMU\n")
    put(tmp_path, f"{DMI}/product_name", "Standard PC (Q35 + ICH9, 2009)\n")
    put(tmp_path, f"{DMI}/chassis_asset_tag", "\n")
    put(tmp_path, "run/cloud-init/cloud-id", "aws\n")
    put(tmp_path, "proc/cpuinfo", "flags : hypervisor\n")
    (tmp_path / "dev/disk/by-label/root").mkdir(parents=True)
    assert not machine.is_instance(tmp_path)


def test_files_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / DMI / "product_name").mkdir(parents=True)
    (tmp_path / DMI / "sys_vendor").write_bytes(b"\xff" * 100_000)
    assert not machine.is_instance(tmp_path)
