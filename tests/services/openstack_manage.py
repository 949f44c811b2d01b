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


"""Runs several commands of an OpenStack tool after importing it once.

Run as a script, by the interpreter that has the tool: ``MODULE NAME
COMMANDS``, where ``COMMANDS`` is a JSON list of lists of arguments. The import
takes longer than most commands. Each runs in a process of its own, since
the tools read their command line only once.
"""

import importlib
import json
import multiprocessing
import sys
from collections.abc import Callable


def _call(main: Callable[[], int | None], arguments: list[str]) -> None:
    sys.argv = arguments
    sys.exit(main())


def run(module: str, name: str, commands: list[list[str]]) -> int:
    """Run commands up to the first that fails.

    :param module: of which ``main`` is called.
    :param name: of the tool, for its messages.
    :param commands: arguments of each.
    :returns: exit status of the last one that was run.
    """
    main = importlib.import_module(module).main
    context = multiprocessing.get_context("fork")
    for arguments in commands:
        child = context.Process(target=_call, args=(main, [name, *arguments]))
        child.start()
        child.join()
        if child.exitcode != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
