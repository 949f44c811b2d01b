# SPDX-License-Identifier: Apache-2.0

"""The versions of the REST API, for the API and all that ask it."""

#: One line for each; rest_api_version_history.rst (doc/source/reference) has
#: more. The answers of a version never change, so a change is a new line.
VERSIONS = (
    "1.0",  # Release 1.0.0.
)
OLDEST = VERSIONS[0]
NEWEST = VERSIONS[-1]
