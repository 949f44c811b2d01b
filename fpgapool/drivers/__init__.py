# SPDX-License-Identifier: Apache-2.0

"""Drivers: each operates boards of one kind."""
