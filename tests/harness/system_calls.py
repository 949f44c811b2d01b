# SPDX-License-Identifier: Apache-2.0

"""Programs run with the system calls only that a unit of systemd allows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

#: Arguments: names of system calls, then the command to run with only those.
LAUNCHER = """
import ctypes, os, sys
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
FAIL_WITH_EPERM, ALLOW = 0x00050001, 0x7FFF0000
rules = ctypes.c_void_p(library.seccomp_init(FAIL_WITH_EPERM))
for name in sys.argv[1].split(","):
    number = library.seccomp_syscall_resolve_name(name.encode())
    # Others are not of this architecture.
    if number >= 0:
        assert library.seccomp_rule_add(rules, ALLOW, number, 0) == 0, name
assert library.seccomp_load(rules) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


def allowed(filters: Iterable[str]) -> set[str]:
    """Return the system calls that values of ``SystemCallFilter`` allow.

    :param filters: names of system calls, and of sets of them with ``@``.
    """
    names: set[str] = set()
    for value in filters:
        for word in value.split():
            names |= _members(word) if word.startswith("@") else {word}
    return names


def _members(name: str) -> set[str]:
    text = subprocess.run(
        ["systemd-analyze", "syscall-filter", name],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    words = (line.strip() for line in text.splitlines()[1:])
    return allowed(word for word in words if word and word[0] != "#")


def confined(names: Iterable[str], command: list[str]) -> list[str]:
    """Return a command that runs another one with some system calls only.

    :param names: of system calls; others fail with EPERM.
    :param command: begins with an absolute path.
    """
    return [sys.executable, "-I", "-c", LAUNCHER, ",".join(names), *command]
