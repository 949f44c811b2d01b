# SPDX-License-Identifier: Apache-2.0

"""What can go wrong, as Horizon sorts it.

Horizon's own list counts every HTTP error of openstacksdk as a missing login.
So :mod:`fpgapool_dashboard.api` raises these instead. Importing this module
needs no settings, because the files in ``enabled`` do so early.
"""


class PoolError(Exception):
    """The API did not do what it was asked; the text is for users."""


class NotFoundError(PoolError):
    """What was asked for does not exist, or belongs to another project."""


class UnauthorizedError(PoolError):
    """The API does not accept the token."""


#: For ``ADD_EXCEPTIONS``.
BY_KIND = {
    "recoverable": (PoolError,),
    "not_found": (NotFoundError,),
    "unauthorized": (UnauthorizedError,),
}
