# SPDX-License-Identifier: Apache-2.0

"""Commands for version 1 of the REST API.

Each kind of resource has a module. ``base`` contains the commands' base
classes, and :mod:`fpgapool.common.arguments` declares their arguments.
``names`` and ``projects`` look up resources by name.
"""
