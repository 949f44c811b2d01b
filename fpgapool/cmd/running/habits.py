# SPDX-License-Identifier: Apache-2.0

"""What a command with only a FILE does, as ``gzip`` and ``sha256sum`` do."""

from __future__ import annotations

import argparse
import os
import sys

from fpgapool.cmd.running import arguments as command_line

#: Suffix of the output's name, by accelerator.
_SUFFIXES = {"gzip": ".gz", "aes": ".enc", "aes-cbc": ".enc"}
#: Accelerators whose output is a digest to show.
_DIGESTS = ("sha",)


def fill_in(arguments: argparse.Namespace) -> None:
    """Make FILE the input, and choose the output that goes with it.

    Sets ``source``, ``destination``, ``like``, the path whose mode and time
    the output gets, and ``digest_of``, the name on the line with the digest.

    :raises command_line.UsageError: if FILE and --in are given, the name is
        not that of such an input, or the output exists.
    """
    arguments.like = arguments.digest_of = None
    file = arguments.file
    if file is None:
        return
    if arguments.source is not None:
        raise command_line.UsageError("specify FILE or --in, not both")
    arguments.source = file
    if arguments.destination is not None or arguments.dry_run:
        return
    stages = arguments.stages or (arguments.accelerator,)
    stages = [one.partition("@")[0] for one in stages]
    suffixes = [_SUFFIXES.get(one) for one in stages]
    if stages[-1] in _DIGESTS:
        arguments.digest_of = file
        arguments.destination = command_line.STANDARD
    elif None not in suffixes and file != command_line.STANDARD:
        path = _destination(file, "".join(suffixes), arguments.direction)
        if os.path.lexists(path) and not arguments.force:
            raise command_line.UsageError(
                f"{path} already exists; --force replaces it"
            )
        arguments.like, arguments.destination = file, path


def _destination(file: str, suffix: str, direction: str | None) -> str:
    has_suffix = file.endswith(suffix) and os.path.basename(file) != suffix
    if direction == "decrypt":
        if not has_suffix:
            raise command_line.UsageError(
                f"{file} does not end with {suffix}; specify --out"
            )
        return file.removesuffix(suffix)
    if has_suffix and direction is None:
        raise command_line.UsageError(
            f"{file} already ends with {suffix}; to process it anyway, specify"
            " --out"
        )
    return file + suffix


def show_digest(digest: bytes, name: str) -> None:
    """Print a line as ``sha256sum`` prints it."""
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n")
    escaped = escaped.replace("\r", "\\r")
    line = f"{digest.hex()}  {escaped}\n"
    if escaped != name:
        line = f"\\{line}"
    # Names of files need not be text.
    sys.stdout.buffer.write(os.fsencode(line))
    sys.stdout.flush()
