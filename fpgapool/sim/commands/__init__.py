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

"""The commands of ``fpgapool-sim``, a module each.

Each has ``add_parser(subparsers)``, which sets ``run``, a function of the
parsed arguments that raises :class:`fpgapool.sim.errors.InputError` for
input that makes no sense, and may return an exit code.
"""

from fpgapool.sim.commands import figures
from fpgapool.sim.commands import generate
from fpgapool.sim.commands import run
from fpgapool.sim.commands import sweep
from fpgapool.sim.commands import tune
from fpgapool.sim.commands import validate

COMMANDS = (run, generate, sweep, tune, figures, validate)
