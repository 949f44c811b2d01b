# SPDX-License-Identifier: Apache-2.0

"""What several handlers answer with.

``views`` turns records into documents by their descriptions, ``paging`` makes
pages of lists, ``reasons`` explains why sessions wait, and ``administration``
handles the requests that devices and hosts share.
"""
