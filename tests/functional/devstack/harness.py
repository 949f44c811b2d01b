# SPDX-License-Identifier: Apache-2.0

"""Runs the DevStack plugin over stand-ins of DevStack's functions."""

from __future__ import annotations

import configparser
import os
import pathlib
import shlex
import subprocess

ROOT = pathlib.Path(__file__).parents[3]
PLUGIN = ROOT / "devstack"
STANDINS = pathlib.Path(__file__).with_name("standins.sh")

STACK = ("stack pre-install", "stack install", "stack post-config")
STACK = (*STACK, "stack extra", "stack test-config")
_LIMIT_S = 60

CONTROLLER = "key,mysql,rabbit,n-api,n-api-meta,n-cond,n-sch,placement-api"
ALL_IN_ONE = f"{CONTROLLER},n-cpu,g-api,q-svc,q-agt,ovn-controller"
COMPUTE = "n-cpu,placement-client,ovn-controller"

HOST_KEY = "cd" * 32
PERMISSIONS = "rabbitmqctl set_permissions"

#: What nova.conf holds before plugins come.
NOVA_CONF = """
[DEFAULT]
debug = True

[filter_scheduler]
enabled_filters = ComputeFilter,SameHostFilter
"""

Call = list[str]


class Sandbox:
    """A directory in which DevStack seems to be at work."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._calls = path / "calls"
        for name in (
            *("apache", "bin", "nova", "opt/data/nova", "systemd", "uwsgi"),
        ):
            (path / name).mkdir(parents=True)
        self.nova_conf = path / "nova" / "nova.conf"
        self.conf = path / "etc" / "fpgapool.conf"
        self.agent_conf = path / "etc" / "fpgapool-agent.conf"
        self.uwsgi_conf = path / "etc" / "fpgapool-api-uwsgi.ini"
        self.boards_file = path / "etc" / "boards.yaml"
        self.state_path = path / "opt" / "data" / "fpgapool"
        self._make_command("fpgapool-manage")
        self._make_command("uwsgi")
        self.write_compute_id("f0000000-0000-4000-8000-000000000001")
        self.reset_nova_conf()

    def _make_command(self, name: str) -> None:
        path = self.path / "bin" / name
        path.write_text(
            f'#!/bin/sh\necho "{name} $*" >>"$CALLS"\n'
            # What is asked of it is asked of the real one in a test of its
            # own, which takes longer.
            'case "$*" in\n'
            f'    *"host key") echo {HOST_KEY} ;;\n'
            f'    *"host permissions "*) echo {PERMISSIONS} ;;\n'
            "esac\n"
        )
        path.chmod(0o755)

    def write_compute_id(
        self, text: str, where: str = "opt/data/nova"
    ) -> None:
        """Do what nova-compute does when it starts."""
        path = self.path / where / "compute_id"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def reset_nova_conf(self) -> None:
        """Do what DevStack does at the beginning."""
        self.nova_conf.write_text(NOVA_CONF)

    def run(
        self, services: str, *phases: str, disabled: str = "", **variables: str
    ) -> list[Call]:
        """Source settings and, for each phase, plugin.sh.

        :param phases: "stack install" and the like.
        :returns: the calls of DevStack's functions and of commands.
        """
        self._calls.write_text("")
        # unstack.sh and clean.sh go on after errors; stack.sh does not.
        lines = ["set -o errexit"] if phases[0].startswith("stack") else []
        lines += [
            "shopt -u sourcepath",
            f"source {shlex.quote(str(STANDINS))}",
            f"source {shlex.quote(str(PLUGIN / 'settings'))}",
        ]
        for phase in phases:
            lines += [
                f"record phase {phase}",
                f"source {shlex.quote(str(PLUGIN / 'plugin.sh'))} {phase}",
            ]
        result = subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            env=self._environment(services, disabled, variables),
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        assert result.returncode == 0, result.stdout
        # What a plugin has to say goes through echo_summary.
        assert result.stdout == ""
        return [shlex.split(x) for x in self._calls.read_text().splitlines()]

    def _environment(
        self, services: str, disabled: str, variables: dict[str, str]
    ) -> dict[str, str]:
        return {
            "PATH": f"{self.path / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "SANDBOX": str(self.path),
            "CALLS": str(self._calls),
            "ENABLED_SERVICES": services,
            "DISABLED_SERVICES": disabled,
            "FPGAPOOL_CONF_DIR": str(self.path / "etc"),
            "FPGAPOOL_SUDOERS": str(self.path / "sudoers"),
            **variables,
        }

    def stack(
        self, services: str, *, disabled: str = "", **variables: str
    ) -> list[Call]:
        """Run all phases of stack.sh."""
        return self.run(services, *STACK, disabled=disabled, **variables)

    def leave_what_services_do(self) -> None:
        """Make the files that services have made when they are stopped."""
        (self.state_path / "workers").mkdir()
        (self.state_path / "workers" / "1").touch()
        if self.uwsgi_conf.exists():
            (self.path / "uwsgi" / "fpgapool-api.socket").touch()

    def files(self) -> dict[str, str]:
        """Return all files with their text, by their paths.

        The name of the directory itself is left out of both.
        """
        here = str(self.path)
        return {
            str(path.relative_to(self.path)): path.read_text().replace(
                here, "HERE"
            )
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and path != self._calls
        }


def read(path: pathlib.Path) -> dict[str, dict[str, str]]:
    """Read an INI file in which no option stands twice."""
    parser = configparser.ConfigParser(interpolation=None)
    with path.open() as file:
        parser.read_file(file)
    sections = {name: dict(parser[name]) for name in parser.sections()}
    return {**sections, "DEFAULT": dict(parser.defaults())}


def named(calls: list[Call], *beginning: str) -> list[Call]:
    """Return the calls that begin with some words."""
    return [one for one in calls if one[: len(beginning)] == [*beginning]]
