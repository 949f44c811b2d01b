# SPDX-License-Identifier: Apache-2.0

"""The REST API: who asks, what, and in which version of it.

``routes`` is the whole API in one table; everything else comes from it.
"""
