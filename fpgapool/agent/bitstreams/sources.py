# SPDX-License-Identifier: Apache-2.0

"""The sources of bitstreams' files."""

from __future__ import annotations

import os
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Generator
from typing import IO

from oslo_config import cfg

from fpgapool import objects
from fpgapool.bitstreams import files
from fpgapool.conf import bitstream_cache as options

if typing.TYPE_CHECKING:
    from keystoneauth1 import adapter

PIECE_BYTES = 1 << 20

#: Maximum time without incoming data before a connection is closed.
READ_TIMEOUT_S = 20.0


class SourceError(Exception):
    """A file is unavailable.
    :param final: whether a retry is useless.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Source(typing.Protocol):
    """The source of the library's files; thread-safe."""

    def pieces(
        self, bitstream: objects.BitstreamRef
    ) -> Generator[bytes, None, None]:
        """Yield a bitstream's file, piece by piece.

        The caller verifies the data and closes this generator.

        :raises SourceError: if the file does not exist or cannot be read.
        """


class NoSource:
    """A source without files."""

    def pieces(
        self, bitstream: objects.BitstreamRef
    ) -> Generator[bytes, None, None]:
        raise SourceError("no bitstream source is configured", final=True)
        yield b""


class DirectorySource:
    """The API's file store, on this machine or a shared file system."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = pathlib.Path(directory)

    def pieces(
        self, bitstream: objects.BitstreamRef
    ) -> Generator[bytes, None, None]:
        try:
            path = self._directory / files.relative_path(
                bitstream.checksum_sha256, bitstream.bitstream_id
            )
        except ValueError as error:
            raise SourceError(str(error), final=True) from error
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed below
        except OSError as error:
            # Retry: on a shared file system, a file may appear late.
            raise SourceError(
                f"cannot open {path}: {error.strerror}"
            ) from error
        with file:
            while piece := _read(file, path):
                yield piece


def _read(file: IO[bytes], path: pathlib.Path) -> bytes:
    try:
        return file.read(PIECE_BYTES)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error


class ApiSource:
    """The REST API, with the service's own credentials.

    :param make_adapter: returns an API adapter or raises; called on first use.
    """

    def __init__(self, make_adapter: Callable[[], adapter.Adapter]) -> None:
        self._make_adapter = make_adapter
        self._adapter: adapter.Adapter | None = None

    def pieces(
        self, bitstream: objects.BitstreamRef
    ) -> Generator[bytes, None, None]:
        from keystoneauth1 import exceptions
        from requests import exceptions as http_exceptions

        try:
            # Two threads may each create an adapter; the last one is kept.
            self._adapter = self._adapter or self._make_adapter()
            response = self._adapter.get(
                f"/bitstreams/{bitstream.bitstream_id}/file",
                headers={"Accept": "application/octet-stream"},
                stream=True,
                raise_exc=False,
                timeout=READ_TIMEOUT_S,
            )
            with response:
                _check_status(response.status_code)
                yield from response.iter_content(PIECE_BYTES)
        except exceptions.ClientException as error:
            raise SourceError(f"cannot fetch from the API: {error}") from error
        except http_exceptions.RequestException as error:
            raise SourceError(f"cannot fetch from the API: {error}") from error


def _check_status(status: int) -> None:
    if status == 200:
        return
    # Retry if the service may be starting or overloaded.
    final = status < 500 and status not in (408, 425, 429)
    raise SourceError(f"the API returned HTTP status {status}", final=final)


def from_conf(conf: cfg.ConfigOpts) -> Source:
    """Return the configured source without contacting it."""
    if conf.bitstream_cache.source == options.FILE:
        return DirectorySource(conf.bitstreams.store_dir)
    return ApiSource(lambda: _make_adapter(conf))


def _make_adapter(conf: cfg.ConfigOpts) -> adapter.Adapter:
    from keystoneauth1 import exceptions
    from keystoneauth1 import loading

    try:
        options.OPTIONS.register_auth(conf)
        auth = loading.load_auth_from_conf_options(conf, options.GROUP)
        if auth is None:
            raise SourceError(
                f"[{options.GROUP}] does not set auth_type", final=True
            )
        found = loading.load_adapter_from_conf_options(
            conf,
            options.GROUP,
            session=loading.load_session_from_conf_options(
                conf, options.GROUP, auth=auth
            ),
            auth=auth,
        )
    except (exceptions.ClientException, cfg.Error, ValueError) as error:
        raise SourceError(f"[{options.GROUP}]: {error}", final=True) from error
    if found.endpoint_override is None:
        found.version = "1"
    return found
