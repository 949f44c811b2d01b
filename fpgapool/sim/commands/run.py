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

"""``fpgapool-sim run``: simulate a scenario under one or more policies."""

from __future__ import annotations

import argparse
import pathlib
import typing

from fpgapool.sim import scenario as scenarios
from fpgapool.sim import simulation


def add_parser(subparsers: typing.Any) -> None:
    """Add this command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run", help="simulate a scenario", description=__doc__
    )
    parser.add_argument("scenario", type=pathlib.Path, metavar="SCENARIO")
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help="may be repeated; default: all of the scenario",
    )
    parser.add_argument(
        "--engine", choices=sorted(simulation.ENGINES), default="fluid"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Simulate and print what came out."""
    scenario = scenarios.read(arguments.scenario)
    for policy in arguments.policy or scenario.policies:
        simulation.run(
            scenario,
            policy,
            engine=arguments.engine,
            source=str(arguments.scenario),
        )
