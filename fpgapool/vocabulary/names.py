# SPDX-License-Identifier: Apache-2.0

"""Names of accelerators in the library, and of bitstreams.

The key of a public accelerator is its name. The key of a project's accelerator
is ``name@project``, so that two projects can use the same name. A project that
requests ``name`` gets its own accelerator, if there is one.
"""

from collections.abc import Callable

SEPARATOR = "@"
#: Prefix of the driver's own implementation of an accelerator.
BUILTIN_PREFIX = "builtin:"
#: Prefix of a file of the library.
FILE_PREFIX = "bitstream:"


def bitstream_of(accelerator: str, bitstream_id: str | None) -> str:
    """Return the name of the bitstream for a slot.

    :param accelerator: its key in the library.
    :param bitstream_id: of a file; None for the driver's implementation.
    """
    if bitstream_id is None:
        return f"{BUILTIN_PREFIX}{accelerator}"
    return f"{FILE_PREFIX}{bitstream_id}"


def key_of(name: str, project_id: str | None) -> str:
    """Return the library's key of an accelerator.

    :param project_id: its owner; None for a public one.
    """
    return name if project_id is None else f"{name}{SEPARATOR}{project_id}"


def owner_of(key: str) -> str | None:
    """Return the project that owns an accelerator; None: it is public."""
    return key.partition(SEPARATOR)[2] or None


def resolve(
    name: str, project_id: str, is_usable: Callable[[str], bool]
) -> str | None:
    """Return the key of the accelerator that a project names.

    :param is_usable: whether that project may use the accelerator with a key.
    :returns: None if there is none of that name that it may use.
    """
    own = key_of(name, project_id)
    for key in (own, name) if SEPARATOR not in name else (name,):
        if is_usable(key):
            return key
    return None
