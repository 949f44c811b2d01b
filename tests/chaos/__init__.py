# SPDX-License-Identifier: Apache-2.0

"""A pool under load and random faults: ``make chaos``."""
