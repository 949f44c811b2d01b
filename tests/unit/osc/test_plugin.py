# SPDX-License-Identifier: Apache-2.0

import subprocess
import sys


def test_the_openstack_command_has_the_commands_of_the_pool():
    # Only a fresh interpreter imports the plug-in as the command does.
    command = "-m openstackclient.shell fpga session list --help"
    result = subprocess.run(
        [sys.executable, *command.split()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Failed to import plugin" not in result.stderr
    assert result.returncode == 0, result.stderr
    assert " fpga session list [-h]" in result.stdout
