# SPDX-License-Identifier: Apache-2.0

"""A whole pool on one machine: conductor, agents and workers.

The services are those of a cloud; only the wiring differs.
"""
