# SPDX-License-Identifier: Apache-2.0

"""Start the installed commands, whose libraries may be missing.

The client library installs every command; an extra installs its libraries. If
they are missing, the command names the extra instead of printing a traceback.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys

FAILURE = 1
#: The exit code of shells for a process that SIGINT has ended.
INTERRUPTED = 130


def agent() -> int:
    """Run ``fpgapool-agent``."""
    return _run("agent", extra="server")


def allinone() -> int:
    """Run ``fpgapool-allinone``."""
    return _run("allinone", extra="allinone")


def conductor() -> int:
    """Run ``fpgapool-conductor``."""
    return _run("conductor", extra="server")


def manage() -> int:
    """Run ``fpgapool-manage``."""
    return _run("manage", extra="server")


def sim() -> int:
    """Run ``fpgapool-sim``."""
    return _run("sim", extra="sim")


def run() -> int:
    """Run ``fpgapool-run``."""
    return _run("run", extra="cli")


def status() -> int:
    """Run ``fpgapool-status``."""
    return _run("status", extra="server")


def yarn_labels() -> int:
    """Run ``fpgapool-yarn-labels``."""
    return _run("yarn_labels", extra="cli")


def discard_output() -> None:
    """Drop what standard output still has, as it cannot be written.

    Python would try again at its end, and complain.
    """
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _run(name: str, extra: str) -> int:
    program = f"fpgapool-{name.replace('_', '-')}"
    try:
        command = importlib.import_module(f"fpgapool.cmd.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "fpgapool").split(".")[0] == "fpgapool":
            raise
        print(
            f"{program}: {error.name} is not installed; "
            f"pip install 'fpgapool[{extra}]'",
            file=sys.stderr,
        )
        return FAILURE
    except KeyboardInterrupt:
        # These imports take long enough for Ctrl-C.
        print(f"{program}: CANCELLED: interrupted", file=sys.stderr)
        return INTERRUPTED
    status: int = command.main()
    return status
