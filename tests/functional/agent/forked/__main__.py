# SPDX-License-Identifier: Apache-2.0

"""A process that tells what it has, waits or ends."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import ssl
import sys
import threading
import time

from fpgapool.agent.child import selfsigned


def warm_up(threads: bool = False, dies: str = "") -> None:
    """Make a certificate, as workers do, and start a thread if asked to."""
    del dies
    selfsigned.make()
    random.random()
    if threads:
        threading.Thread(target=signal.pause, daemon=True).start()


#: The number of the process that was prepared, and a descriptor of its own.
PREPARED: list[int] = []
OPENED: list[int] = []


def prepare(threads: bool = False, dies: str = "") -> None:
    """Remember where this was called, or append it to a file and die."""
    del threads
    PREPARED.append(os.getpid())
    zero = os.open("/dev/zero", os.O_RDONLY)
    OPENED.append(os.dup2(zero, 100))
    os.close(zero)
    if dies:
        with open(dies, "a", encoding="utf-8") as file:
            file.write(".")
        os._exit(1)


def main() -> int:
    settings = json.loads(sys.argv[1])
    if "path" in settings:
        path = pathlib.Path(settings["path"])
        part = path.with_suffix(".part")
        part.write_text(json.dumps(_facts()))
        part.rename(path)
    if "wait" in settings:
        signal.pause()
    time.sleep(settings.get("pause_s", 0.0))
    return settings.get("status", 0)


def _facts() -> dict[str, object]:
    line = pathlib.Path("/proc/self/cmdline").read_bytes()
    return {
        "parent": os.getppid(),
        "prepared": [os.getpid()] == PREPARED,
        "argv": sys.argv[1:],
        "line": line.rstrip(b"\0").decode().split("\0")[1:],
        "files": sorted({*map(int, os.listdir("/proc/self/fd"))} - {*OPENED}),
        "opened": [os.readlink(f"/proc/self/fd/{fd}") for fd in OPENED],
        "input": os.readlink("/proc/self/fd/0"),
        "threads": len(os.listdir("/proc/self/task")),
        "random": random.getrandbits(64),
        "openssl": ssl.RAND_bytes(16).hex(),
        "certificate": selfsigned.make()[1],
    }


if __name__ == "__main__":
    sys.exit(main())
