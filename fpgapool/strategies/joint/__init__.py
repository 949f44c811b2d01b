# SPDX-License-Identifier: Apache-2.0

"""Strategies that choose jobs and slots together."""
