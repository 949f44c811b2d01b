# SPDX-License-Identifier: Apache-2.0

"""Data for handlers: from the leading conductor, the database, and caches.

``leader`` queries the conductor, ``waiters`` waits for changes of sessions,
``news`` hears of them, ``inventory`` computes figures and the snapshot,
``caches`` keeps data that many requests need, and ``vendordata`` answers Nova.
These modules do not check the caller's rights.
"""
