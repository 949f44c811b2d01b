# SPDX-License-Identifier: Apache-2.0

"""The bitstreams that a host programs into its slots.

``sources``
    The sources of files: the store's directory or the REST API.
``cache``
    The files on this host, verified.
``fetching``
    Fetches files in other threads, within the time limit of each request.
``trust``
    Decides whether a bitstream may be programmed, by signatures and trusted
    keys.

:mod:`fpgapool.agent.service` calls them when the slot table needs a file. They
do not depend on slots or sessions.
"""
