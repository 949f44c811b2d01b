# SPDX-License-Identifier: Apache-2.0

"""Transfers: files, streams and memory through sessions and groups.

:mod:`.transfer` has the functions for programs, :mod:`.feeding` sends their
input, :mod:`.sinks` take the output; :mod:`.files` opens and checks files.

Programs, ``fpgapool-run`` and Spark's executors call it. It knows neither
doors nor connections.
"""
