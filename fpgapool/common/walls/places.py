# SPDX-License-Identifier: Apache-2.0

"""Where the interpreter, this package and loaded libraries are."""

from __future__ import annotations

import collections.abc
import contextlib
import os
import pathlib
import pwd
import sys

import fpgapool

#: What a Python environment has besides configuration.
_PARTS = ("bin", "include", "lib", "lib64", "pyvenv.cfg", "share")
#: Directories at or above these contain more than libraries.
_OTHERS = ("/etc", "/home", "/root", "/tmp", "/run", "/var/lib", "/var/log")


def libraries(
    named: collections.abc.Iterable[str] = (),
    private: collections.abc.Iterable[str] = (),
) -> list[str]:
    """Return the directories that a Python process needs to read.

    Directories that also contain other files are omitted.

    :param named: further directories.
    :param private: paths that no returned directory may contain.
    """
    loaded = {
        os.path.dirname(line.split(maxsplit=5)[5])
        for line in pathlib.Path("/proc/self/maps").read_text().splitlines()
        if ".so" in line
    }
    package = os.path.dirname(fpgapool.__file__)
    parts = [
        os.path.join(prefix, part)
        for prefix in (sys.prefix, sys.base_prefix)
        for part in _PARTS
    ]
    places = {
        form(place)
        for place in (*named, *loaded, package, *parts, *sys.path)
        if place
        for form in (os.path.abspath, os.path.realpath)
    }
    others = [*_OTHERS, *map(os.path.realpath, private)]
    with contextlib.suppress(KeyError):
        others.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return [
        place
        for place in sorted(places)
        if os.path.exists(place)
        and not any(pathlib.Path(one).is_relative_to(place) for one in others)
    ]
