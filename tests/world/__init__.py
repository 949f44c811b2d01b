# SPDX-License-Identifier: Apache-2.0

"""A whole pool in one process, on virtual time, from one seed.

The classes are the product's own, down to threads, sockets, clocks and
processes; those are replaced by :mod:`tests.world.system` and
:mod:`tests.world.sockets`.  See CONTRIBUTING.rst.
"""
