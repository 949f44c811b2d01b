# SPDX-License-Identifier: Apache-2.0

"""Drivers: how the pool uses boards of one kind."""
