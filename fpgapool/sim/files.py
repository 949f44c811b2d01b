# SPDX-License-Identifier: Apache-2.0

"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import pathlib
import secrets

from fpgapool.sim import errors


def write(path: pathlib.Path, content: bytes) -> None:
    """Write a file; who reads it sees the old content or all of the new.

    :param path: of the file; what it holds is replaced.
    :param content: of the file.
    :raises errors.InputError: if it cannot be written; what was there stays.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        try:
            partial.write_bytes(content)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise unusable(path, error) from error


def read(path: pathlib.Path) -> bytes:
    """Read a file.

    :raises errors.InputError: if it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise unusable(path, error) from error


def read_text(path: pathlib.Path) -> str:
    """Read a file of UTF-8 text; a byte order mark is left out.

    :raises errors.InputError: if it cannot be read.
    """
    try:
        return read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.InputError(
            str(path), f"byte {error.start}", error.reason
        ) from error


def check_writable(path: pathlib.Path) -> None:
    """Find out before a long run whether a file could be written after it.

    :raises errors.InputError: if it could not.
    """
    if path.is_dir():
        raise errors.InputError(str(path), "", "is a directory")
    if not path.parent.is_dir():
        raise errors.InputError(
            str(path), "", f"there is no directory {path.parent}"
        )
    if not os.access(path.parent, os.W_OK):
        raise errors.InputError(
            str(path), "", f"nothing can be written into {path.parent}"
        )


def unusable(path: pathlib.Path, error: OSError) -> errors.InputError:
    """What the system says of a file, as an error of the input."""
    return errors.InputError(str(path), "", error.strerror or str(error))
