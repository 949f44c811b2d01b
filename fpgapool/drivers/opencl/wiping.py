# SPDX-License-Identifier: Apache-2.0

"""Overwrites the local memory of a device.

Runtimes do not clear it, so a kernel, even in another context, could read what
a previous one left there.
"""

from __future__ import annotations

import json

from fpgapool.drivers import base
from fpgapool.drivers.opencl import binding
from fpgapool.drivers.opencl import runner as runners
from fpgapool.drivers.opencl.contents import manifest as manifests
from fpgapool.vocabulary import codes

SOURCE = b"""
kernel void wipe(global uint *found, volatile local uint *memory,
                 volatile global uint *arrivals, const uint words,
                 const uint groups, const uint units)
{
    uint rest = 0;

    for (uint i = get_local_id(0); i < words; i += get_local_size(0))
        memory[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < words; i += get_local_size(0))
        rest |= memory[i];
    if (get_local_id(0) == 0) {
        const uint arrival = atomic_inc(arrivals);
        const uint needed = arrival - arrival % groups + units;
        uint left = 1u << 31;

        while (atomic_or(arrivals, 0) < needed && left)
            left--;
        rest |= !left;
    }
    found[get_global_id(0)] = rest;
}
"""

_ITEMS = 64
#: Output of a work group: one word for each work item.
_BLOCK_BYTES = 4 * _ITEMS
#: Work groups per compute unit. The runtime chooses the unit for each group. A
#: group that uses all local memory has a unit to itself, so several groups per
#: unit reach all units. On a CPU, some threads may start late, so the first
#: groups wait until one group per unit has started; otherwise one thread could
#: compute them all.
_GROUPS_PER_UNIT = 4

MANIFEST = manifests.parse(
    json.dumps(
        {
            "format_version": 1,
            "name": "wipe",
            "params": {
                "local_bytes": {"type": "uint", "minimum": 4},
                "units": {"type": "uint", "minimum": 1},
            },
            "variants": [
                {
                    "block_bytes": _BLOCK_BYTES,
                    "state": {"bytes": 4},
                    "process": {
                        "output_bytes": "bytes",
                        "steps": [
                            {
                                "kernel": "wipe",
                                "global": [f"blocks * {_ITEMS}"],
                                "local": [_ITEMS],
                                "arguments": [
                                    "output",
                                    {"local": "local_bytes"},
                                    "state",
                                    {"uint": "local_bytes / 4"},
                                    {"uint": "blocks"},
                                    {"uint": "units"},
                                ],
                            }
                        ],
                    },
                }
            ],
        }
    ).encode()
)


class Wiper:
    """Overwrites a device's local memory; see :class:`runners.Runner`."""

    def __init__(self, program: runners.Program, wait: runners.Wait) -> None:
        device = program.device
        groups = _GROUPS_PER_UNIT * device.max_compute_units
        self._data = memoryview(bytes(groups * _BLOCK_BYTES))
        local_bytes = min(device.local_mem_size, binding.MAX_LOCAL_BYTES)
        is_processor = device.type & runners.cl.device_type.CPU
        self._runner = runners.Runner(
            program,
            {
                "local_bytes": local_bytes,
                "units": device.max_compute_units if is_processor else 1,
            },
            len(self._data),
            wait=wait,
        )

    def wipe(self) -> None:
        """Overwrite the memory and read it back.

        :raises base.DriverError: ``SCRUB_FAILED`` if data remains or a compute
            unit never starts; also see :class:`runners.Runner`.
        """
        found = bytearray(len(self._data))
        self._runner.process(self._data, memoryview(found), 0)
        if any(found):
            raise base.DriverError(
                codes.SCRUB_FAILED, "local memory was not overwritten"
            )
