# SPDX-License-Identifier: Apache-2.0

"""A whole pool on one machine: conductor, agents and workers.

The services are the same as in a cloud; only their wiring differs.
"""
