# SPDX-License-Identifier: Apache-2.0

"""FPGAs with a device feature list (DFL): Intel and Altera boards.

An FPGA management engine (FME) programs the regions behind ports. A file is a
*green bitstream*: a header that names the board's interface, followed by the
partial bitstream. The file may come from a tenant, so its header is checked.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pathlib
import struct
import uuid

from fpgapool.drivers import base
from fpgapool.drivers.fpga_region import sysfs
from fpgapool.objects import untrusted
from fpgapool.vocabulary import codes

_MAGIC = uuid.UUID("58656f6e-4650-4741-b747-425376303031").bytes
_HEADER = struct.Struct("<16sI")
_MAX_METADATA_BYTES = 64 * 1024
_MAX_DEPTH = 16

# _IO(0xB6, …) in linux/fpga-dfl.h.
_PORT_RESET = 0xB640
_FME_PORT_PR = 0xB680
# The structure's size, flags, port, the bitstream's size, and its address.
_PORT_PR = struct.Struct("<IIIIQ")

#: Power state of a port that is off because the board drew too much power.
_SHUT_DOWN = 6


def payload(contents: bytes, compat_id: str | None) -> bytes:
    """Return the partial bitstream in a file.

    :param compat_id: the region's interface ID, hexadecimal; None: unknown.
    :raises base.DriverError: ``BITSTREAM_UNKNOWN`` if the file is not a green
        bitstream, or ``BITSTREAM_UNFIT`` if it is for another board.
    """
    if len(contents) < _HEADER.size:
        raise _unknown("the file is shorter than a header")
    magic, metadata_bytes = _HEADER.unpack_from(contents)
    if magic != _MAGIC:
        raise _unknown("wrong magic number")
    end = _HEADER.size + metadata_bytes
    if metadata_bytes > _MAX_METADATA_BYTES or end >= len(contents):
        raise _unknown("invalid metadata length")
    wanted = _interface(contents[_HEADER.size : end].rstrip(b"\0"))
    if compat_id is None or wanted.hex != compat_id.replace("-", "").lower():
        raise base.DriverError(
            codes.BITSTREAM_UNFIT,
            f"the bitstream is for interface {wanted}; the region has"
            f" interface {compat_id}",
        )
    return contents[end:]


def _interface(metadata: bytes) -> uuid.UUID:
    try:
        document = untrusted.decode(
            metadata, "metadata", _MAX_METADATA_BYTES, _MAX_DEPTH
        )
    except ValueError as error:
        raise _unknown(str(error)) from None
    image = document.get("afu-image") if isinstance(document, dict) else None
    found = image.get("interface-uuid") if isinstance(image, dict) else None
    try:
        return uuid.UUID(found)
    except (AttributeError, TypeError, ValueError):
        raise _unknown("the metadata has no interface-uuid") from None


def _unknown(reason: str) -> base.DriverError:
    return base.DriverError(
        codes.BITSTREAM_UNKNOWN, f"not a green bitstream: {reason}"
    )


def program(fme: pathlib.Path, port_id: int, bitstream: bytes) -> None:
    """Program the region of a port; block until this is done.

    :param port_id: number of the port within the FPGA.
    :raises base.DriverError: ``PROGRAMMING_FAILED``.
    """
    memory = ctypes.create_string_buffer(bitstream, len(bitstream))
    argument = _PORT_PR.pack(
        _PORT_PR.size, 0, port_id, len(bitstream), ctypes.addressof(memory)
    )
    try:
        _ioctl(fme, _FME_PORT_PR, argument)
    except OSError as error:
        raise base.DriverError(
            codes.PROGRAMMING_FAILED,
            f"{fme.name} cannot program port {port_id}: {error.strerror}",
        ) from error


def reset(port: pathlib.Path) -> None:
    """Reset a port and all registers of the accelerator behind it.

    :raises base.DriverError: ``SCRUB_FAILED``.
    """
    try:
        _ioctl(port, _PORT_RESET, b"")
    except OSError as error:
        raise base.DriverError(
            codes.SCRUB_FAILED, f"cannot reset {port.name}: {error.strerror}"
        ) from error


def _ioctl(path: pathlib.Path, request: int, argument: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, request, argument)
    finally:
        os.close(descriptor)


def fme_fault(directory: pathlib.Path) -> str:
    """Return why a board cannot be used; empty if it can."""
    if not directory.is_dir():
        return f"{directory.name} is missing"
    for name in ("fme_errors", "catfatal_errors"):
        errors = sysfs.read(directory / "errors" / name)
        if errors is not None and _number(errors) != 0:
            return f"{directory.name} reports {name} {errors:.40}"
    return ""


def port_fault(directory: pathlib.Path) -> str:
    """Return why a port cannot be used; empty if it can."""
    if not directory.is_dir():
        return f"{directory.name} is missing"
    if _number(sysfs.read(directory / "power_state")) == _SHUT_DOWN:
        return f"{directory.name} is off: the board drew too much power"
    errors = sysfs.read(directory / "errors" / "errors")
    if errors is not None and _number(errors) != 0:
        return f"{directory.name} reports errors {errors:.40}"
    return ""


def port_id(directory: pathlib.Path) -> int:
    """Return the number of a port within its FPGA.

    :raises base.DriverError: ``PROGRAMMING_FAILED``.
    """
    number = _number(sysfs.read(directory / "id"))
    if number is None:
        raise base.DriverError(
            codes.PROGRAMMING_FAILED, f"{directory.name}/id is not a number"
        )
    return number


def _number(text: str | None) -> int | None:
    """Return an attribute's number; None if it is not a number."""
    try:
        return int(text or "", 0)
    except ValueError:
        return None
