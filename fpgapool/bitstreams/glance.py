# SPDX-License-Identifier: Apache-2.0

"""A store of bitstream files in Glance."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from collections.abc import Iterator
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

from oslo_log import log as logging

from fpgapool.bitstreams import base
from fpgapool.bitstreams import intake
from fpgapool.bitstreams import properties
from fpgapool.clients import glance
from fpgapool.common import exception

if TYPE_CHECKING:
    # Agents use stores without a database.
    from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)

#: Property that marks an image as created by fpgapool.
_MARK = "fpgapool_bitstream_id"
_POOL = "fpgapool_pool"

_MAX_PROPERTY_LENGTH = 255


def properties_of(record: db_api.BitstreamRecord) -> dict[str, str]:
    """Return an image's properties, named as Cyborg specifies."""
    return {
        **{
            name: record.properties[name]
            for name in properties.NAMES
            if record.properties.get(name)
        },
        "bs-name": record.name[:_MAX_PROPERTY_LENGTH],
        "bs-uuid": record.bitstream_id,
        "version": record.version,
        "description": record.description[:_MAX_PROPERTY_LENGTH],
        "function_name": record.properties.get(
            "function_name", record.accelerator
        ),
        _MARK: record.bitstream_id,
        "fpgapool_project_id": record.project_id,
    }


class GlanceStore(base.Store):
    """Stores each file as a hidden image, in the service user's project.

    A location is an image's ID.

    :param pool_name: name of this pool; others may use the same project.
    """

    def __init__(self, client: glance.Glance, pool_name: str) -> None:
        self._client = client
        self._pool_name = pool_name

    def write(
        self, record: db_api.BitstreamRecord, incoming: intake.Intake
    ) -> str:
        image_id = self._client.create(
            f"bitstream-{record.bitstream_id}",
            {**properties_of(record), _POOL: self._pool_name},
        )
        try:
            self._upload(image_id, incoming)
        except BaseException:
            with contextlib.suppress(
                exception.StoreFailed, exception.StoreUnavailable
            ):
                self.delete(image_id)
            raise
        return image_id

    def _upload(self, image_id: str, incoming: intake.Intake) -> None:
        length_bytes = incoming.length_bytes
        body = (
            _Body(incoming)
            if length_bytes is None
            else _SizedBody(incoming, length_bytes)
        )
        try:
            self._client.upload(image_id, body)
        except (exception.StoreFailed, exception.StoreUnavailable):
            if body.error is not None:
                raise body.error from None
            raise
        # If the length is known, the library does not read to the end.
        body.finish()
        self._compare(self._client.show(image_id), body)

    def _compare(self, image: Mapping[str, Any], body: _Body) -> None:
        is_same = image.get("size") == body.size_bytes
        if is_same and image.get("os_hash_algo") == "sha512":
            is_same = image.get("os_hash_value") == body.sum.hexdigest()
        if not is_same:
            raise exception.StoreUnavailable(
                reason="the data that Glance stored differs from what was sent"
            )

    def read(self, location: str) -> Iterator[bytes]:
        return self._client.download(location, base.CHUNK_BYTES)

    def delete(self, location: str) -> None:
        self._client.delete(location)

    def files(self) -> Iterator[base.Found]:
        now = datetime.datetime.now(datetime.UTC)
        for image in self._client.list(visibility="private"):
            if image.get(_MARK) and image.get(_POOL) == self._pool_name:
                made = datetime.datetime.fromisoformat(image["created_at"])
                yield base.Found(image["id"], (now - made).total_seconds())


class _Body:
    """An incoming file as a body that HTTP libraries can read."""

    def __init__(self, incoming: intake.Intake) -> None:
        self._parts = iter(incoming)
        self._rest = memoryview(b"")
        self.error: Exception | None = None
        self.size_bytes = 0
        self.sum = hashlib.sha512()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts; the library iterates if the length is unknown."""
        while part := self.read(base.CHUNK_BYTES):
            yield part

    def read(self, size: int = -1, /) -> bytes:
        """Return at most this many bytes, or none at the end."""
        if not self._rest:
            self._rest = memoryview(self._next())
        if size < 0:
            size = len(self._rest)
        part, self._rest = bytes(self._rest[:size]), self._rest[size:]
        self.size_bytes += len(part)
        self.sum.update(part)
        return part

    def finish(self) -> None:
        """Check that the file ends here and is complete."""
        self.read()

    def _next(self) -> bytes:
        try:
            return next(self._parts, b"")
        except Exception as error:
            self.error = error
            raise


class _SizedBody(_Body):
    """An incoming file with a known length."""

    def __init__(self, incoming: intake.Intake, length_bytes: int) -> None:
        super().__init__(incoming)
        self._length_bytes = length_bytes

    def __len__(self) -> int:
        return self._length_bytes
