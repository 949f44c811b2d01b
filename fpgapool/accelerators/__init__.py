# SPDX-License-Identifier: Apache-2.0

"""Software cores: what a programmed slot computes, but on the CPU."""
