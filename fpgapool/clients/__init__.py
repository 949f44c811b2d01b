# SPDX-License-Identifier: Apache-2.0

"""Clients of other OpenStack services: Glance, Keystone, Nova, Placement.

Each translates the errors of its service into those of
:mod:`fpgapool.common.exception`.
They make no decisions.
"""
