# SPDX-License-Identifier: Apache-2.0

"""The desk: spreads the tasks of a group's clients over its members.

A process for each group and host; it outlives its agent.
"""
