# SPDX-License-Identifier: Apache-2.0

"""The acceptance test of a pool, as a plugin of Tempest.

It asks the pool as users, operators and Nova do, and takes nothing from
:mod:`fpgapool` but its client library, which moves the data.
"""
