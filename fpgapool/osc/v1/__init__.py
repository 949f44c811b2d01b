# SPDX-License-Identifier: Apache-2.0

"""Commands for version 1 of the REST API.

A module for each kind of resource. ``base`` has their base classes,
:mod:`fpgapool.common.arguments` declares their arguments, ``names`` and
``projects`` find resources by name.
"""
