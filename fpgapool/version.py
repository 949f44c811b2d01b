# SPDX-License-Identifier: Apache-2.0

"""The version of the installed package."""

import functools
from importlib import metadata


@functools.cache
def version_string() -> str:
    """Return the version of the installed fpgapool, such as ``1.2.0``.

    It is read at the first call only, because reading it takes milliseconds.
    """
    return metadata.version("fpgapool")
