# SPDX-License-Identifier: Apache-2.0

"""Two hosts of Nova's with libvirt daemons of their own."""

from __future__ import annotations

from tests.services import nova as nova_service
from tests.services import openstack
from tests.services import process
from tests.services.hypervisors import libvirt

NAMES = tuple(nova_service.compute_name(number) for number in (1, 2))


class Computes:
    """The hosts, and the files of their servers, which they share.

    :param workspace: where they live and who cleans up after them.
    :param nova: gets them as its computes; has to be started afterwards.
    :param options: what is in the configuration of each besides.
    """

    def __init__(
        self,
        workspace: process.Workspace,
        nova: nova_service.Nova,
        options: openstack.Sections,
    ) -> None:
        self._nova = nova
        instances = workspace.path / "instances"
        instances.mkdir()
        helper = {"helper_command": openstack.program("privsep-helper")}
        self.daemons = [
            libvirt.Libvirtd(number, name, workspace, instances)
            for number, name in enumerate(NAMES, start=1)
        ]
        for daemon in self.daemons:
            nova.add_compute(
                {
                    **options,
                    "DEFAULT": {
                        "compute_driver": "libvirt.LibvirtDriver",
                        "instances_path": instances,
                        "reserved_host_disk_mb": 0,
                        "initial_cpu_allocation_ratio": 16.0,
                        "force_config_drive": True,
                        # The machines know no button.
                        "shutdown_timeout": 0,
                    },
                    "libvirt": {
                        "virt_type": "qemu",
                        "cpu_mode": "none",
                        "connection_uri": daemon.uri,
                        "live_migration_scheme": "tcp",
                        "live_migration_inbound_addr": daemon.address,
                    },
                    "oslo_concurrency": {
                        "lock_path": daemon.directory / "locks"
                    },
                    # They run as root already.
                    "nova_sys_admin": helper,
                    "privsep_osbrick": helper,
                }
            )

    def start(self) -> None:
        """Start what does not run of libvirt; again is harmless."""
        for daemon in self.daemons:
            daemon.start()

    def crash(self, number: int) -> None:
        """Have a host fail, with its machines."""
        self._nova.computes[number - 1].kill()
        self.daemons[number - 1].kill()
