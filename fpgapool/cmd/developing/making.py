# SPDX-License-Identifier: Apache-2.0

"""fpgapool-dev new: a directory with a first version of something.

A skeleton is a directory of files that work as they are. Making one replaces
the word ``skeleton`` in the files and in their names by the chosen name.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import keyword
import os
import pathlib
import re
import shutil
import tempfile

from fpgapool.accelerators import base as accelerators
from fpgapool.common import exception
from fpgapool.vocabulary import codes

#: What can be made, and what it is.
KINDS = {
    "core": "an accelerator in software, for emulated boards",
    "opencl": "an accelerator in OpenCL C",
    "driver": "a driver for a kind of boards",
    "strategy": "a scheduling strategy",
}

_DIRECTORY = pathlib.Path(__file__).parent / "skeletons"
_WORD = "skeleton"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
#: Entry points of which a new one must differ, by kind.
_GROUPS = {"driver": "fpgapool.drivers", "strategy": "fpgapool.strategies"}

_NEXT = {
    "core": "fpgapool-dev try {path}/{name}.py",
    "opencl": "fpgapool-dev try {path}/{name}.cl",
    "driver": "pip install {path} && fpgapool-allinone --driver {name}",
    "strategy": "pip install {path} && fpgapool-allinone --strategy {name}",
}


def make(kind: str, name: str, parent: pathlib.Path) -> list[str]:
    """Make a directory; return lines that say what to do next.

    It is made as a whole, or not at all.

    :raises ConfigurationError: if the name cannot be used, or the directory
        exists or cannot be made.
    """
    _check_name(kind, name)
    path = parent / name
    if path.exists() or path.is_symlink():
        raise _refusal(
            f"{path} exists already; choose another name", codes.FILE_ERROR
        )
    try:
        with tempfile.TemporaryDirectory(
            dir=parent, prefix=f".{name}-"
        ) as unfinished:
            made = pathlib.Path(unfinished, name)
            _copy(_DIRECTORY / kind, made, name)
            files = sorted(
                str(one.relative_to(made))
                for one in made.rglob("*")
                if one.is_file()
            )
            made.rename(path)
    except OSError as error:
        raise _refusal(
            f"{error.filename or path}: {error.strerror}", codes.FILE_ERROR
        ) from error
    return [
        f"made {path}: {', '.join(files)}",
        f"test it: cd {path} && pytest",
        f"use it: {_NEXT[kind].format(path=path, name=name)}",
    ]


def _check_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise _refusal(
            f"{name!r} is not a name of up to 31 lower-case letters, digits"
            " and _, with a letter at the front, and no word of Python"
        )
    if importlib.util.find_spec(name) is not None:
        raise _refusal(
            f"Python has a module {name!r} already; choose another name"
        )
    taken = (
        importlib.metadata.entry_points(group=_GROUPS[kind]).names
        if kind in _GROUPS
        else accelerators.profile_names()
    )
    if name in taken:
        raise _refusal(
            f"the pool has a {kind} {name!r} already; choose another name"
        )


def _copy(skeleton: pathlib.Path, made: pathlib.Path, name: str) -> None:
    class_name = "".join(part.capitalize() for part in name.split("_"))

    def renamed(text: str) -> str:
        return text.replace(_WORD.capitalize(), class_name).replace(
            _WORD, name
        )

    for directory, directories, files in os.walk(skeleton):
        directories[:] = [one for one in directories if one != "__pycache__"]
        source = pathlib.Path(directory)
        target = made / renamed(str(source.relative_to(skeleton)))
        target.mkdir()
        for file in files:
            copy = target / renamed(file)
            copy.write_text(
                renamed((source / file).read_text(encoding="utf-8")),
                encoding="utf-8",
            )
            shutil.copymode(source / file, copy)


def _refusal(
    reason: str, code: str = codes.INVALID_USAGE
) -> exception.ConfigurationError:
    return exception.ConfigurationError(reason=reason, code=code)
