# SPDX-License-Identifier: Apache-2.0

"""The REST API.

``routes`` has the whole API in one table; the rest follows from it.
"""
