# SPDX-License-Identifier: Apache-2.0

"""Bitstreams that the emulator can run."""

from __future__ import annotations

import collections.abc
import functools
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import names

if typing.TYPE_CHECKING:
    from fpgapool.objects import declaration as declarations

Params = collections.abc.Mapping[str, typing.Any]
#: Starts a session's computation.
MakeCore: typing.TypeAlias = collections.abc.Callable[[Params], base.Core]


def load_builtin(bitstream: str) -> tuple[base.Profile, MakeCore]:
    """Find one of this host's accelerators.

    :raises base.DriverError: ``BITSTREAM_UNKNOWN``, or ``CORE_UNAVAILABLE``.
    """
    name = bitstream.removeprefix(names.BUILTIN_PREFIX)
    if name == bitstream:
        raise base.DriverError(
            codes.BITSTREAM_UNKNOWN,
            "without a file, the emulator accepts only"
            f" {names.BUILTIN_PREFIX}<accelerator>, not {bitstream!r}",
        )
    try:
        profile = accelerators.load_profile(name)
        # Find the core now, so that opening a session is fast.
        return profile, accelerators.load_core(profile.core)
    except accelerators.AcceleratorError as exc:
        known = exc.code == codes.CORE_UNAVAILABLE
        code = exc.code if known else codes.BITSTREAM_UNKNOWN
        raise base.DriverError(code, exc.message) from exc


def load_file(
    file: base.BitstreamFile, capacity: collections.abc.Mapping[str, int]
) -> tuple[base.Profile, MakeCore]:
    """Read a bitstream that is a declaration.

    :raises base.DriverError: ``BITSTREAM_UNKNOWN``, ``BITSTREAM_UNFIT`` or
        ``BITSTREAM_DAMAGED``.
    """
    # Imported here, because few slots need it.
    from fpgapool.objects import declaration as declarations

    if file.format != formats.DECLARATION:
        raise base.DriverError(
            codes.BITSTREAM_UNKNOWN,
            f"the emulator accepts bitstreams in format {formats.DECLARATION},"
            f" not {file.format!r:.80}",
        )
    contents = file.read(declarations.MAX_SIZE_BYTES)
    try:
        declared = declarations.parse(contents)
        core_class = accelerators.load_core(declared.core)
    except accelerators.AcceleratorError as exc:
        raise base.DriverError(codes.BITSTREAM_UNKNOWN, exc.message) from exc
    except ValueError as exc:
        raise base.DriverError(codes.BITSTREAM_UNKNOWN, str(exc)) from exc
    if not declared.fits(capacity):
        raise base.DriverError(
            codes.BITSTREAM_UNFIT, _shortage(declared, capacity)
        )
    make_core = functools.partial(_make_declared, core_class, declared)
    return _profile(file.accelerator, declared), make_core


def _make_declared(
    core_class: type[base.Core],
    declared: declarations.Declaration,
    params: Params,
) -> base.Core:
    try:
        merged = declared.merged(params)
    except ValueError as exc:
        raise base.InvalidParams(str(exc)) from None
    return core_class(merged)


def _profile(
    accelerator: str, declared: declarations.Declaration
) -> base.Profile:
    return base.Profile(
        name=accelerator,
        description=declared.description,
        peak_bytes_per_s=declared.peak_bytes_per_s,
        return_ratio=declared.return_ratio,
        stateless=declared.stateless,
        shapes=(),
        params_schema=declared.params_schema,
        core=declared.core,
        chunk_multiple_bytes=declared.chunk_multiple_bytes,
    )


def _shortage(
    declared: declarations.Declaration,
    capacity: collections.abc.Mapping[str, int],
) -> str:
    missing = ", ".join(
        f"{needed} {resource} (the slot has {capacity[resource]})"
        for resource, needed in declared.resources.items()
        if needed > capacity.get(resource, needed)
    )
    return f"the slot is too small: the bitstream needs {missing}"
