# SPDX-License-Identifier: Apache-2.0

"""The devices of this host's OpenCL runtimes.

As a program, it prints them as JSON, and says which of those that its
arguments name do not answer. A runtime that hangs or crashes then harms that
process only.
"""

from __future__ import annotations

import collections
import collections.abc
import ctypes
import dataclasses
import json
import sys
import typing

import numpy
import pyopencl as cl

from fpgapool.drivers import base
from fpgapool.drivers.opencl import devices
from fpgapool.drivers.opencl import programs

_TRIED_BYTES = 4096

_XRT_PLATFORM = "Xilinx"
_XRT_LIBRARY = "libxilinxopencl.so.2"
_XRT_PCIE_BDF = 0x1120
_XRT_TEXT_BYTES = 64

_ReadAddress = collections.abc.Callable[[cl.Device], str]


def listed() -> list[tuple[devices.Found, cl.Device]]:
    """List the devices of all runtimes.

    :raises base.DriverError: ``DEVICE_FAILED`` if no runtime is there.
    """
    try:
        platforms = cl.get_platforms()
    except (cl.Error, RuntimeError) as error:
        # Some runtimes do not keep their own errors to themselves.
        raise base.DriverError(
            base.DEVICE_FAILED, f"no OpenCL runtime: {error}"
        ) from error
    found = []
    for platform in platforms:
        numbers = collections.Counter[str]()
        for device in _devices(platform):
            name = device.name.strip()
            found.append(
                (
                    devices.Found(
                        platform=platform.name.strip(),
                        name=name,
                        number=numbers[name],
                        kind=_kind(device),
                        pci=_address(device),
                        memory_bytes=device.global_mem_size,
                        unified=programs.is_unified(device),
                        has_compiler=bool(device.compiler_available),
                    ),
                    device,
                )
            )
            numbers[name] += 1
    return found


def part(device: cl.Device, known: devices.Device, slot: int) -> cl.Device:
    """Return what a slot has of a device.

    :param device: the whole.
    :param known: the same device.
    :param slot: its number.
    :returns: a part with computing units of its own; or the whole, if slots
        share the units or if the runtime cannot divide it.
    :raises base.DriverError: ``DEVICE_FAILED``.
    """
    kinds = cl.device_partition_property
    if not known.board.is_divided:
        return device
    try:
        units = known.units(device.max_compute_units)
        if (
            not units
            or kinds.BY_COUNTS not in device.partition_properties
            or len(units) > device.partition_max_sub_devices
        ):
            return device
        return device.create_sub_devices(
            [kinds.BY_COUNTS, *units, kinds.BY_COUNTS_LIST_END]
        )[slot]
    except cl.Error as error:
        raise base.DriverError(base.DEVICE_FAILED, str(error)) from error


def _devices(platform: cl.Platform) -> list[cl.Device]:
    try:
        return platform.get_devices()
    except (cl.Error, RuntimeError):
        # A runtime without a board of its vendor.
        return []


def _kind(device: cl.Device) -> str:
    if device.type & cl.device_type.CPU:
        return devices.CPU
    if device.type & cl.device_type.GPU:
        return devices.GPU
    return devices.ACCELERATOR


def _of_nvidia(device: cl.Device) -> str:
    info = cl.device_info
    domain: typing.Any = device.get_info(info.PCI_DOMAIN_ID_NV)
    bus: typing.Any = device.get_info(info.PCI_BUS_ID_NV)
    slot: typing.Any = device.get_info(info.PCI_SLOT_ID_NV)
    return _written(domain, bus, slot >> 3, slot & 7)


def _of_amd(device: cl.Device) -> str:
    place: typing.Any = device.get_info(cl.device_info.TOPOLOGY_AMD)
    return _written(0, place.bus & 0xFF, place.device, place.function)


def _of_xrt(device: cl.Device) -> str:
    if device.platform.name != _XRT_PLATFORM:
        raise ValueError
    # PyOpenCL asks standard questions only. The library is loaded already.
    ask = ctypes.CDLL(_XRT_LIBRARY).clGetDeviceInfo
    text = ctypes.create_string_buffer(_XRT_TEXT_BYTES)
    status = ask(
        ctypes.c_void_p(device.int_ptr),
        ctypes.c_uint(_XRT_PCIE_BDF),
        ctypes.c_size_t(len(text)),
        text,
        None,
    )
    address = text.value.decode("ascii").lower()
    if status or not devices.PCI_ADDRESS.fullmatch(address):
        raise ValueError
    return address


def _written(domain: int, bus: int, device: int, function: int) -> str:
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def _address(device: cl.Device) -> str | None:
    reads: tuple[_ReadAddress, ...] = (
        _of_nvidia,
        _of_amd,
        _of_xrt,
    )
    for read in reads:
        try:
            return read(device)
        except (cl.Error, AttributeError, OSError, TypeError, ValueError):
            # Another vendor's way.
            continue
    return None


def fault(device: cl.Device) -> str | None:
    """Try whether a device answers. May block for ever.

    :param device: of OpenCL.
    :returns: why not; None if it does.
    """
    try:
        context = cl.Context([device])
        if _kind(device) == devices.ACCELERATOR:
            # A board without kernels has no memory that can be reached.
            return None
        queue = cl.CommandQueue(context)
        there = cl.Buffer(context, cl.mem_flags.READ_WRITE, _TRIED_BYTES)
        cl.enqueue_fill_buffer(queue, there, b"\x5a", 0, _TRIED_BYTES)
        back = numpy.zeros(_TRIED_BYTES, numpy.uint8)
        cl.enqueue_copy(queue, back, there)
    except cl.Error as error:
        return str(error) or type(error).__name__
    return None if (back == 0x5A).all() else "its memory changes data"


def main(arguments: collections.abc.Sequence[str]) -> int:
    """Print all devices, and the faults of some.

    :param arguments: the names of the devices to try.
    :returns: the exit status: 0, or 1 if there is no runtime.
    """
    try:
        found = listed()
    except base.DriverError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    document = [
        {
            "device": dataclasses.asdict(each),
            "fault": fault(device) if each.name in arguments else None,
        }
        for each, device in found
    ]
    sys.stdout.write(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
