# SPDX-License-Identifier: Apache-2.0

"""Benchmarks; see README.rst. Each module but the common ones has rows."""
