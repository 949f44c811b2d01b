# SPDX-License-Identifier: Apache-2.0

"""A driver for fpgapool."""
