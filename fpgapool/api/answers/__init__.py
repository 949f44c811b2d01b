# SPDX-License-Identifier: Apache-2.0

"""Parts of responses that several handlers share.

``views`` makes documents from records and their descriptions, ``paging`` makes
pages of lists, ``hardware`` lists and changes hosts, devices and slots, and
``reasons`` explains why sessions wait.
"""
