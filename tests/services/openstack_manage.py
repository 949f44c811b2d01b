# SPDX-License-Identifier: Apache-2.0

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
