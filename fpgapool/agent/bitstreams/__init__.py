# SPDX-License-Identifier: Apache-2.0

"""The bitstreams that a host programs into its slots.

``sources``
    Where files come from: the store's directory or the REST API.
``cache``
    The verified files on this host.
``fetching``
    Fetches files in other threads, within the time limit of each request.
``trust``
    Whether a bitstream may be programmed: signatures and trusted keys.

:mod:`fpgapool.agent.service` calls them when the slot table needs a file. They
know neither slots nor sessions.
"""
