#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
