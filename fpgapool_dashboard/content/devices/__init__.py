# SPDX-License-Identifier: Apache-2.0

"""The FPGA boards of the pool, for operators."""
