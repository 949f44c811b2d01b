# SPDX-License-Identifier: Apache-2.0

"""Hadoop YARN node labels that show where accelerators are programmed."""
