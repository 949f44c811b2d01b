# SPDX-License-Identifier: Apache-2.0

"""The product of an earlier release, to run beside the present one."""

from __future__ import annotations

import pathlib
import re
import subprocess

from tests.harness import processes

NAME_FILE = processes.ROOT / "tests/functional/system/old_release"

# What never names another tree: a commit's whole number, a tag of a release,
# or the commit that added a file, which needs neither.
_ADDED = "added:"
_FIXED = re.compile(rf"[0-9a-f]{{40}}|v?[0-9]+(\.[0-9]+)+|{_ADDED}\S+")

_LIMIT_S = 60


class Unusable(Exception):
    """There is no such release here; says what to do."""


def old_name(file: pathlib.Path = NAME_FILE) -> str:
    """Return the tag, commit or added file that names the old release.

    :raises Unusable: if it is not exactly one that stays what it is.
    """
    lines = file.read_text().splitlines()
    names = [line for line in lines if line[:1] != "#"]
    if len(names) != 1 or not _FIXED.fullmatch(names[0]):
        raise Unusable(
            f"{file} names {names}, but not the one tag, whole commit id or"
            " added file of a release"
        )
    return names[0]


def unpack(
    name: str, directory: pathlib.Path, root: pathlib.Path = processes.ROOT
) -> None:
    """Write the package of a release to a directory.

    :param root: a checkout with its history.
    :raises Unusable: if the history does not have it, or if a tag or commit is
        the same as the checkout.
    """
    path = name.removeprefix(_ADDED)
    # A release may be compared with itself until the next change.
    may_be_same = path != name
    if may_be_same:
        name = _first_with(path, root)
    made = _git(root, "archive", name, "fpgapool")
    if made.returncode:
        raise Unusable(
            f"The release {name} is not in the history of {root}. In a shallow"
            " clone run 'git fetch --unshallow --tags'; an unpacked archive"
            " has no history: use a clone. git said:"
            f" {made.stderr.decode().strip()}"
        )
    subprocess.run(
        ["tar", "-x", "-C", str(directory)],
        input=made.stdout,
        check=True,
        timeout=_LIMIT_S,
    )
    if may_be_same:
        return
    if not _git(root, "diff", "--quiet", name, "--", "fpgapool").returncode:
        raise Unusable(
            f"The release {name} has the same package as {root}, which would"
            " be compared with itself: name an earlier one"
        )


def _first_with(path: str, root: pathlib.Path) -> str:
    """Return the commit that added a file.

    :raises Unusable: if the history does not reach back to it.
    """
    # The oldest commit of a shallow clone adds all files.
    shallow = _git(root, "rev-parse", "--is-shallow-repository").stdout
    found = _git(root, "log", "--diff-filter=A", "--format=%H", "--", path)
    commits = found.stdout.decode().split()
    if shallow.strip() != b"false" or not commits:
        raise Unusable(
            f"The history of {root} does not have the commit that added"
            f" {path}. In a shallow clone run 'git fetch --unshallow'; an"
            " unpacked archive has no history: use a clone."
        )
    return commits[-1]


def _git(
    root: pathlib.Path, *arguments: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["git", *arguments],
        cwd=root,
        capture_output=True,
        timeout=_LIMIT_S,
        check=False,
    )
