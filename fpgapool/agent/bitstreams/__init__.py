# SPDX-License-Identifier: Apache-2.0

"""The bitstreams that a host programs into its slots.

``sources``
    The sources of files: the file store's directory or the REST API.
``cache``
    The files on this host, verified.
``fetching``
    Fetches files in other threads, within each request's time limit.
``trust``
    Decides by signatures whether a bitstream may be programmed.

:mod:`fpgapool.agent.service` uses them when the slot table needs a file. None
of them depends on slots or sessions.
"""
