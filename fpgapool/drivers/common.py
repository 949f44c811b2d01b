# SPDX-License-Identifier: Apache-2.0

"""What drivers share: settings, slots, profiles and small files."""

from __future__ import annotations

import collections.abc
import os
import pathlib
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.vocabulary import codes


def make_directory(
    driver: str,
    settings: collections.abc.Mapping[str, typing.Any],
    *needed: str,
) -> pathlib.Path:
    """Create a driver's directory in ``state_dir``.

    :param needed: names of other settings that must be set to strings.
    :raises base.DriverError: ``INVALID_SETTINGS``.
    """
    for name in ("state_dir", *needed):
        if not isinstance(settings.get(name), str) or not settings[name]:
            raise base.DriverError(
                codes.INVALID_SETTINGS, f"{driver} requires setting {name!r}"
            )
    directory = pathlib.Path(settings["state_dir"]) / driver
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise base.DriverError(
            codes.INVALID_SETTINGS, f"cannot create {directory}: {exc}"
        ) from exc
    return directory


def no_such_slot(device: str, slot: int) -> base.DriverError:
    return base.DriverError(
        codes.NO_SUCH_SLOT, f"device {device!r:.80} has no slot {slot}"
    )


def not_programmed(device: str, slot: int) -> base.DriverError:
    return base.DriverError(
        codes.NOT_PROGRAMMED, f"slot {slot} of {device} is not programmed"
    )


def load_profile(accelerator: str) -> base.Profile:
    """Read the profile of one of this host's accelerators.

    :raises base.DriverError: ``BITSTREAM_UNKNOWN``.
    """
    try:
        return accelerators.load_profile(accelerator)
    except accelerators.AcceleratorError as exc:
        raise base.DriverError(codes.BITSTREAM_UNKNOWN, exc.message) from exc


def check_shape(profile: base.Profile, shape: str, name: str) -> None:
    """Reject a bitstream that does not fit a slot's shape.

    :param name: name of the bitstream, for the message.
    :raises base.DriverError: ``BITSTREAM_UNFIT``.
    """
    if profile.shapes and shape not in profile.shapes:
        raise base.DriverError(
            codes.BITSTREAM_UNFIT,
            f"bitstream {name!r:.80} is for slots of shape"
            f" {', '.join(profile.shapes)}; this slot has shape {shape}",
        )


def replace_file(path: pathlib.Path, contents: bytes) -> None:
    """Replace a file that other processes may read at any time."""
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(contents)
    fresh.replace(path)
