# SPDX-License-Identifier: Apache-2.0

"""The microversions of the REST API, for the API and its clients."""

#: They are described in doc/source/reference/rest_api_version_history.rst.
#: The responses of a version never change, so every change needs a new one.
VERSIONS = (
    "1.0",  # Release 1.0.0.
    "1.1",  # The pool in numbers, and pages of its hosts.
    "1.2",  # Who has a session, why it waits or where it is, all services.
    "1.3",  # Budgets, shares, reservations, connections of next sessions.
)
OLDEST = VERSIONS[0]
NEWEST = VERSIONS[-1]
