# SPDX-License-Identifier: Apache-2.0

"""Software cores: the computation of a programmed slot, on the CPU."""
