# SPDX-License-Identifier: Apache-2.0

"""Attacks on what keeps workers and desks apart; see :mod:`.vm`."""
