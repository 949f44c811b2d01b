# SPDX-License-Identifier: Apache-2.0

"""Classes of an operator. The region's memory is a file beside it."""

from fpgapool.drivers.fpga_region import core


class CopyCore(core.RegionCore):
    """Copies through the region's memory."""

    def __init__(self, params, region=None):
        self._memory = region.directory / "memory"

    @classmethod
    def clear(cls, region):
        (region.directory / "memory").write_bytes(b"")

    def process(self, chunk_in, chunk_out, offset_bytes):
        self._memory.write_bytes(chunk_in)
        data = self._memory.read_bytes()
        chunk_out[: len(data)] = data
        return len(data)


class DirtyCore(CopyCore):
    """Cannot clear the region's memory."""

    @classmethod
    def clear(cls, region):
        raise OSError("the memory does not answer")


class NoRegionCore:
    """Not a core."""
