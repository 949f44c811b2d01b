# SPDX-License-Identifier: Apache-2.0

"""Data for handlers: from the leading conductor, the database, and caches.

``leader`` queries the conductor, ``waiters`` waits for changes of sessions,
``inventory`` makes figures and the snapshot of rows, ``caches`` keeps what
many requests need, and ``vendordata`` answers Nova. They check no rights.
"""
