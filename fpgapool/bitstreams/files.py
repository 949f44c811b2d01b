# SPDX-License-Identifier: Apache-2.0

"""A store of bitstream files in a directory."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import tempfile
import time
from collections.abc import Iterator
from typing import IO
from typing import TYPE_CHECKING

from fpgapool.bitstreams import base
from fpgapool.bitstreams import intake
from fpgapool.common import exception

if TYPE_CHECKING:
    # Agents use stores without a database.
    from fpgapool.db import api as db_api

_INCOMING = "incoming"
_DIRECTORY_MODE = 0o750
_FILE_MODE = 0o640

_LOCATION = re.compile(
    r"[0-9a-f]{64}\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


def relative_path(checksum_sha256: str, bitstream_id: str) -> str:
    """Return the path of a file below the store's directory.

    Each bitstream has its own file, so that deleting one never races with the
    upload of another that has the same content.

    :raises ValueError: if an argument is malformed: paths must not contain
        unchecked input.
    """
    location = f"{checksum_sha256}.{bitstream_id}"
    if not _LOCATION.fullmatch(location):
        raise ValueError(f"invalid location: {location!r:.160}")
    return f"{checksum_sha256[:2]}/{location}"


class FileStore(base.Store):
    """Stores files in a directory, named after their checksums.

    :param directory: created when the first file is stored.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = pathlib.Path(directory)

    def write(
        self, record: db_api.BitstreamRecord, incoming: intake.Intake
    ) -> str:
        with _translated(), self._part() as part:
            # _passed() keeps the sender's errors apart from the store's.
            for chunk in _passed(incoming):
                part.write(chunk)
            part.flush()
            os.fchmod(part.fileno(), _FILE_MODE)
            os.fsync(part.fileno())
            path = self._path(
                f"{incoming.checksum_sha256}.{record.bitstream_id}"
            )
            _make_directory(path.parent)
            os.replace(part.name, path)
            _sync_directory(path.parent)
        return path.name

    def read(self, location: str) -> Iterator[bytes]:
        with _translated():
            # Opened here to detect a missing file; _Chunks closes it.
            file = open(self._path(location), "rb")  # noqa: SIM115
        return _Chunks(file)

    def delete(self, location: str) -> None:
        with _translated():
            self._path(location).unlink(missing_ok=True)

    def files(self) -> Iterator[base.Found]:
        now = time.time()
        with _translated():
            paths = list(self._directory.glob("*/*"))
        for path in paths:
            with contextlib.suppress(FileNotFoundError), _translated():
                yield base.Found(path.name, now - path.stat().st_mtime)

    @contextlib.contextmanager
    def _part(self) -> Iterator[IO[bytes]]:
        """Create a temporary file, and remove it at the end."""
        incoming = self._directory / _INCOMING
        _make_directory(incoming)
        file = tempfile.NamedTemporaryFile(  # noqa: SIM115
            dir=incoming, delete=False
        )
        try:
            with file:
                yield file
        finally:
            pathlib.Path(file.name).unlink(missing_ok=True)

    def _path(self, location: str) -> pathlib.Path:
        checksum_sha256, _, bitstream_id = location.partition(".")
        if location == pathlib.Path(location).name and not bitstream_id:
            # files() also lists what interrupted uploads left behind.
            return self._directory / _INCOMING / location
        return self._directory / relative_path(checksum_sha256, bitstream_id)


class _Sender(Exception):
    """Carries a sender's exception through :func:`_translated`."""


def _passed(incoming: intake.Intake) -> Iterator[bytes]:
    try:
        yield from incoming
    except OSError as error:
        raise _Sender from error


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _Sender as carrier:
        raise carrier.__cause__ or carrier from None
    except FileNotFoundError as error:
        raise exception.StoreFailed(reason="the file is missing") from error
    except ValueError as error:
        raise exception.StoreFailed(reason=str(error)) from error
    except OSError as error:
        # Leave out the path, which only operators may see.
        raise exception.StoreUnavailable(
            reason=error.strerror or "I/O error"
        ) from error


class _Chunks:
    """Yields a file's contents; closes it at the end or when closed.

    Closing a generator that has not started would leave the file open.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.close = file.close

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with _translated():
            chunk = self._file.read(base.CHUNK_BYTES)
        if not chunk:
            self.close()
            raise StopIteration
        return chunk


def _make_directory(path: pathlib.Path) -> None:
    path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)


def _sync_directory(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
