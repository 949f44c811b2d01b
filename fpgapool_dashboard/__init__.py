# SPDX-License-Identifier: Apache-2.0

"""Panels of Horizon: the pool for a project and for operators.

Horizon loads them, not the pool. They ask the REST API with the token of
whoever looks at them, and know nothing that the API does not tell.

``api`` asks, ``paging`` and ``pool`` decide what is shown of the answers, and
``content`` has a package for each panel.
"""
