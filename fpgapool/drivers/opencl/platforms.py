# SPDX-License-Identifier: Apache-2.0

"""The devices of this host's OpenCL runtimes."""

from __future__ import annotations

import collections
import collections.abc
import ctypes
import typing

import pyopencl as cl

from fpgapool.drivers import base
from fpgapool.drivers.opencl import devices
from fpgapool.drivers.opencl import programs
from fpgapool.vocabulary import codes

_XRT_PLATFORM = "Xilinx"
_XRT_LIBRARY = "libxilinxopencl.so.2"
_XRT_PCIE_BDF = 0x1120
_XRT_TEXT_BYTES = 64

_ReadAddress = collections.abc.Callable[[cl.Device], str]


def listed() -> list[tuple[devices.Found, cl.Device]]:
    """List the devices of all runtimes.

    :raises base.DriverError: ``DEVICE_FAILED`` if there is no usable runtime.
    """
    try:
        platforms = cl.get_platforms()
    except (cl.Error, RuntimeError) as error:
        # Some runtimes raise internal errors.
        raise base.DriverError(
            codes.DEVICE_FAILED, f"found no usable OpenCL runtime: {error}"
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
    """Return a slot's part of a device.

    :returns: a subdevice with its own compute units, or the whole device if
        slots share the units or the runtime cannot divide them.
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
        raise base.DriverError(codes.DEVICE_FAILED, str(error)) from error


def _devices(platform: cl.Platform) -> list[cl.Device]:
    try:
        return platform.get_devices()
    except (cl.Error, RuntimeError):
        # The runtime found none of its vendor's devices.
        return []


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
    # PyOpenCL supports only standard queries, so call the loaded library.
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
            # The device is from another vendor.
            continue
    return None
