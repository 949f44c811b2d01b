# SPDX-License-Identifier: Apache-2.0

"""The versions of the REST API, for the API and all that ask it."""

#: One line for each; doc/source/rest_api_version_history.rst has more. The
#: answers of a version never change, so a change is a new line.
VERSIONS = (
    "1.0",  # Sessions, accelerators, hosts, devices, slots, pool, services.
    "1.1",  # Groups, goals, clients, their quotas; platforms; OpenCL.
    "1.2",  # Deadlines and dry runs of sessions.
    "1.3",  # Energy of sessions.
    "1.4",  # Applications of sessions; shapes of faulty accelerators.
)
OLDEST = VERSIONS[0]
NEWEST = VERSIONS[-1]
