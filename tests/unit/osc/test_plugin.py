# SPDX-License-Identifier: Apache-2.0

import argparse
import subprocess
import sys
from importlib import metadata

import pytest
from openstackclient import shell
from osc_lib import exceptions

from fpgapool.osc.v1 import accelerator
from tests.unit.osc import fakes


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


def test_the_openstack_command_takes_none_of_our_options():
    """It looks at the whole line first, for its own options."""
    everywhere = shell.OpenStackShell().parser
    commands = metadata.entry_points(group="openstack.fpgapool.v1")
    assert commands
    for command in commands:
        parser = command.load()(fakes.App(), None).get_parser("fpga test")
        for option in _options(parser) - {"-h", "--help"}:
            words = ["fpga", "test", option, "1"]
            assert everywhere.parse_known_args(words)[1] == words, option


def _options(parser: argparse.ArgumentParser) -> set[str]:
    return {
        option
        for action in parser._actions
        for option in action.option_strings
    }


def test_an_output_that_cannot_be_written() -> None:
    app = fakes.App()
    app.client.accelerators.side_effect = lambda **_: iter([])
    # The standard output of the command stays as it is.
    with open("/dev/full", "w", encoding="utf-8") as app.stdout:
        with pytest.raises(exceptions.CommandError) as caught:
            app.run(accelerator.ListAccelerators, "-f", "json")
        assert str(caught.value) == "standard output: No space left on device"
        app.stdout.write("there is nobody to tell any more")


def test_an_output_that_is_closed() -> None:
    """Nothing is asked, or changed, whose answer nobody sees."""
    app = fakes.App()
    app.stdout = None
    with pytest.raises(exceptions.CommandError, match="output is closed"):
        app.run(accelerator.ListAccelerators)
    assert not app.client.accelerators.called
