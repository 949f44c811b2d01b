# SPDX-License-Identifier: Apache-2.0

"""What a line of sudoers lets a user run."""

from __future__ import annotations

import fnmatch
import tempfile

from fpgapool.privsep import link


def allows(line: str, words: list[str]) -> bool:
    """Tell whether sudo would run a command, as sudoers(5) has it.

    :param line: with one command, joined where it is continued.
    :param words: the command and its arguments.
    """
    _, found, rule = line.partition(" NOPASSWD: ")
    assert found, line
    command, *arguments = rule.split()
    # Arguments are compared as one string: wildcards match spaces, too.
    return words[0] == command and fnmatch.fnmatchcase(
        " ".join(words[1:]), " ".join(arguments)
    )


def check_is_for_the_helper_only(line: str, helper: str) -> None:
    """Require that a line allows oslo.privsep's command, and no other one.

    :param helper: the option ``helper_command`` without sudo.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        # As oslo.privsep makes it.
        path = f"{directory}/privsep.sock"
    start = f"{helper} --privsep_context {link.CONTEXT.pypath}"
    usual = f"{start} --privsep_sock_path {path}"
    assert allows(line, usual.split())
    for strange in (
        usual.replace(link.CONTEXT.pypath, "os.CONTEXT"),
        f"{usual} --privsep_context os.CONTEXT",
        f"{usual} --config-file /tmp/mine.conf",
        f"{start} --privsep_sock_path /tmp/tmp --config-file /tmp/mine.conf"
        f" --privsep_sock_path {path}",
        f"{start} --privsep_sock_path /tmp/tmp --help/privsep.sock",
        f"{start} --privsep_sock_path /tmp/tmp/../../x/privsep.sock",
        f"{start} --privsep_sock_path /home/any/privsep.sock",
        f"{usual}.other",
        start,
    ):
        assert not allows(line, strange.split()), strange
