# SPDX-License-Identifier: Apache-2.0

"""Glance: store files as images of the service's project."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Protocol

from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import loading
from oslo_config import cfg
from requests import exceptions as requests_exceptions

from fpgapool.clients import adapters
from fpgapool.common import exception
from fpgapool.conf import bitstreams as options

_CONNECT_RETRIES = 2
# Time limit between two parts of a response, not for the whole response.
_TIMEOUT_S = 60
_PAGE_LENGTH = 100
_LEAST_CHUNK_BYTES = 1 << 16

_RETRIABLE_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


class Body(Protocol):
    """A file-like object that is read while it is sent."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to this many bytes; empty at the end."""


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register keystoneauth's options; repeated calls do nothing."""
    for register in (
        loading.register_auth_conf_options,
        loading.register_session_conf_options,
        loading.register_adapter_conf_options,
    ):
        register(conf, options.GLANCE)
    conf.set_default("service_type", "image", group=options.GLANCE)
    conf.set_default("timeout", _TIMEOUT_S, group=options.GLANCE)


class Glance:
    """Operations on images; thread-safe.

    Methods raise StoreUnavailable if a retry may succeed, else StoreFailed.

    :raises ConfigurationError: if the group's options are invalid.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        register_opts(conf)
        self._images = adapters.load(
            conf, options.GLANCE, connect_retries=_CONNECT_RETRIES
        )
        if self._images is None:
            raise exception.ConfigurationError(
                reason=f"[bitstreams] store = glance requires auth_type in"
                f" [{options.GLANCE}]"
            )

    def create(self, name: str, properties: Mapping[str, str]) -> str:
        """Create an image without a file, and return its ID."""
        image = {
            **properties,
            "name": name,
            "disk_format": "raw",
            "container_format": "bare",
            "visibility": "private",
            "os_hidden": True,
            "protected": False,
        }
        with _translated():
            found = self._images.post("/v2/images", json=image).json()
        return str(found["id"])

    def upload(self, image_id: str, body: Body) -> None:
        """Send an image's file; errors of reading it are raised unchanged."""
        with _translated():
            self._images.put(
                f"/v2/images/{image_id}/file",
                data=body,
                headers={"Content-Type": "application/octet-stream"},
                # Do not retry: the file has already been read.
                connect_retries=0,
            )

    def show(self, image_id: str) -> Mapping[str, Any]:
        """Return Glance's description of an image."""
        with _translated():
            found: Mapping[str, Any] = self._images.get(
                f"/v2/images/{image_id}"
            ).json()
        return found

    def download(self, image_id: str, chunk_bytes: int) -> Iterator[bytes]:
        """Return the parts of an image's file; close() ends it early."""
        with _translated():
            answer = self._images.get(
                f"/v2/images/{image_id}/file", stream=True
            )
        if answer.status_code == 204:
            answer.close()
            raise exception.StoreFailed(reason="the image has no file")
        return _Parts(answer, max(chunk_bytes, _LEAST_CHUNK_BYTES))

    def delete(self, image_id: str) -> None:
        """Delete an image; it may be missing."""
        with (
            contextlib.suppress(ksa_exceptions.NotFound),
            _translated(pass_on=ksa_exceptions.NotFound),
        ):
            self._images.delete(f"/v2/images/{image_id}")

    def list(self, **filters: str) -> Iterator[Mapping[str, Any]]:
        """Yield the hidden images that have these properties."""
        query = {**filters, "os_hidden": "true", "limit": str(_PAGE_LENGTH)}
        path: str | None = "/v2/images"
        while path:
            with _translated():
                page = self._images.get(path, params=query).json()
            yield from page["images"]
            path, query = page.get("next"), {}


class _Parts:
    """Yields an answer's contents; closes it at the end or when closed.

    Closing a generator that has not started would leave the answer open.
    """

    def __init__(self, answer: Any, chunk_bytes: int) -> None:
        self._contents = answer.iter_content(chunk_bytes)
        self.close = answer.close

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            with _translated():
                part: bytes = next(self._contents)
        except BaseException:
            self.close()
            raise
        return part


@contextlib.contextmanager
def _translated(
    pass_on: type[Exception] | tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    try:
        yield
    except pass_on:
        raise
    except ksa_exceptions.HttpError as error:
        # Omit the text, which may contain more than a user may see.
        reason = f"Glance returned HTTP {error.http_status}"
        if error.http_status in _RETRIABLE_STATUSES:
            raise exception.StoreUnavailable(reason=reason) from error
        raise exception.StoreFailed(reason=reason) from error
    except (
        ksa_exceptions.ClientException,
        requests_exceptions.RequestException,
    ) as error:
        raise exception.StoreUnavailable(
            reason="Glance or Keystone is unreachable"
        ) from error
