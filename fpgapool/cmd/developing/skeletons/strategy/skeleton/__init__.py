# SPDX-License-Identifier: Apache-2.0

"""A scheduling strategy for fpgapool."""
