# SPDX-License-Identifier: Apache-2.0

"""Transfers: send files, streams and memory through sessions and groups.

:mod:`.transfer` has the functions for programs. :mod:`.feeding` sends input,
:mod:`.sinks` receives output, and :mod:`.files` opens and checks files.

Programs, ``fpgapool-run`` and Spark executors use transfers, which do not use
doors or connections directly.
"""
