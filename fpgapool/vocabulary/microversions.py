# SPDX-License-Identifier: Apache-2.0

"""The versions of the REST API, for the API and its clients."""

#: Described in doc/source/reference/rest_api_version_history.rst. Responses of
#: a version never change, so a change needs a new line.
VERSIONS = (
    "1.0",  # Release 1.0.0.
)
OLDEST = VERSIONS[0]
NEWEST = VERSIONS[-1]
