# SPDX-License-Identifier: Apache-2.0

"""The release before the present code, from the history of the repository.

``python -m tests.harness.releases DIRECTORY`` unpacks all of it there.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

from tests.harness import processes

#: Made by ``make old-release``.
_ENVIRONMENT = processes.ROOT / ".venv-old-release"
_NAME = processes.ROOT / "tests/functional/system/old_release"
_LIMIT_S = 60


def _git(*arguments: str) -> bytes:
    return subprocess.run(
        ["git", *arguments],
        cwd=processes.ROOT,
        check=True,
        stdout=subprocess.PIPE,
        timeout=_LIMIT_S,
    ).stdout


def unpack(tree: pathlib.Path, *paths: str) -> None:
    """Write the release before to a directory.

    :param paths: what of it; all by default.
    :raises RuntimeError: if the clone lacks the history.
    """
    # The oldest commit of a shallow clone adds all files.
    if _git("rev-parse", "--is-shallow-repository").strip() != b"false":
        raise RuntimeError(
            "this clone is shallow: run 'git fetch --unshallow --tags'"
        )
    name = _NAME.read_text().splitlines()[-1]
    path = name.removeprefix("added:")
    if path != name:
        found = _git("log", "--diff-filter=A", "--format=%H", "--", path)
        name = found.decode().split()[-1]
    tree.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["tar", "-x", "-C", str(tree)],
        input=_git("archive", name, *paths),
        check=True,
        timeout=_LIMIT_S,
    )


def installed() -> processes.Release:
    """Return the release before, with an environment of its own.

    :raises RuntimeError: if it is not installed.
    """
    if not (_ENVIRONMENT / ".installed").exists():
        raise RuntimeError(
            "the release before is not installed: run 'make old-release', or"
            " 'make test-upgrade', which does"
        )
    return processes.Release(
        str(_ENVIRONMENT / "bin/python"), _ENVIRONMENT / "src"
    )


if __name__ == "__main__":
    unpack(pathlib.Path(sys.argv[1]))
