# SPDX-License-Identifier: Apache-2.0

"""Names of bitstreams, and of accelerators in the library.

The key of a public accelerator is its name. The key of a project's accelerator
is ``name@project``, so that two projects can use the same name. A project that
requests ``name`` gets its own accelerator of that name if it has one.
"""

import itertools
from collections.abc import Callable
from collections.abc import Iterable

SEPARATOR = "@"
#: Prefix of bitstreams that the driver itself implements.
BUILTIN_PREFIX = "builtin:"
#: Prefix of bitstreams that are files in the library.
FILE_PREFIX = "bitstream:"
#: The shape of emulated slots that have no other one.
DEFAULT_SHAPE = "any"

# Maximum number of names that an error lists.
_MOST_LISTED = 20
# A tenant may ask for unknown names at any rate, so finding the nearest name
# must be cheap.
_MOST_COMPARED = 200
_MOST_COMPARED_CHARACTERS = 64


def bitstream_of(accelerator: str, bitstream_id: str | None) -> str:
    """Return the name of the bitstream for a slot.

    :param accelerator: the accelerator's key in the library.
    :param bitstream_id: the ID of a file; None for the driver's own
        implementation.
    """
    if bitstream_id is None:
        return f"{BUILTIN_PREFIX}{accelerator}"
    return f"{FILE_PREFIX}{bitstream_id}"


def key_of(name: str, project_id: str | None) -> str:
    """Return an accelerator's key in the library.

    :param project_id: the accelerator's owner; None if it is public.
    """
    return name if project_id is None else f"{name}{SEPARATOR}{project_id}"


def owner_of(key: str) -> str | None:
    """Return the project that owns an accelerator; None if it is public."""
    return key.partition(SEPARATOR)[2] or None


def resolve(
    name: str, project_id: str, is_usable: Callable[[str], bool]
) -> str | None:
    """Return the key of the accelerator that a project means by a name.

    :param is_usable: returns whether the project may use the accelerator with
        this key.
    :returns: the key; None if the project may use no accelerator of that name.
    """
    own = key_of(name, project_id)
    for key in (own, name) if SEPARATOR not in name else (name,):
        if is_usable(key):
            return key
    return None


def closest(
    name: str, known: Iterable[str], similarity: float = 0.6
) -> str | None:
    """Return the known name that somebody may have meant; None: there is none.

    :param known: of many, not all are compared.
    :param similarity: the least one that counts, from 0 to 1.
    """
    # Imported here: programs seldom need it.
    import difflib

    close = difflib.get_close_matches(
        name[:_MOST_COMPARED_CHARACTERS],
        itertools.islice(known, _MOST_COMPARED),
        1,
        similarity,
    )
    return close[0] if close else None


def hint(name: str, known: Iterable[str]) -> str:
    """Return what to add to an error about an unknown name.

    :returns: ``; did you mean NAME?``, or nothing if none is near.
    """
    close = closest(name, sorted(known))
    return f"; did you mean {close}?" if close else ""


def unknown_accelerator(name: str, known: Iterable[str]) -> str:
    """Return the message for a name that no accelerator has.

    :param known: the names that the caller may use.
    """
    listed = sorted(known)
    more = len(listed) - _MOST_LISTED
    shown = [*listed[:_MOST_LISTED], *([f"{more} more"] if more > 0 else [])]
    return (
        f"unknown accelerator {name!r:.80}{hint(name, listed) or ';'}"
        f" available: {', '.join(shown) or 'none'}"
    )
