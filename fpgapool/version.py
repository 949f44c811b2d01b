# SPDX-License-Identifier: Apache-2.0

"""The version of the installed package."""

import functools
from importlib import metadata


@functools.cache
def version_string() -> str:
    """Return the version of the installed fpgapool.

    Read from the installation's metadata, at the first call only: reading it
    costs milliseconds, which a short-lived command need not spend.

    :returns: for example ``1.2.0``.
    """
    return metadata.version("fpgapool")
