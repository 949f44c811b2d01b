# SPDX-License-Identifier: Apache-2.0

"""What handlers ask: the leading conductor, the database, and caches of both.

``leader`` asks the conductor, ``waiters`` waits for changes of sessions,
``inventory`` makes figures and the snapshot of rows, ``caches`` keeps what
many requests need, and ``vendordata`` answers Nova. They never decide who may
ask.
"""
