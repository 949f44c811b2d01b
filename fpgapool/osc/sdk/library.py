# SPDX-License-Identifier: Apache-2.0

"""The library's accelerators and bitstreams, and the methods for them."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from collections.abc import Iterator
from typing import IO
from typing import Any

from openstack import exceptions
from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import library

_OCTETS = "application/octet-stream"
_CHUNK_BYTES = 1 << 20


@base.described(library.ACCELERATOR)
class Accelerator(base.Resource):
    """An accelerator; its name identifies it."""

    resource_key = "accelerator"
    resources_key = "accelerators"
    base_path = "/accelerators"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query()

    name = resource.Body("name", alternate_id=True)


@base.described(library.BITSTREAM)
class Bitstream(base.Resource):
    """A file that implements an accelerator for slots of some shapes."""

    resource_key = "bitstream"
    resources_key = "bitstreams"
    base_path = "/bitstreams"
    allow_create = True
    allow_fetch = True
    allow_commit = True
    allow_delete = True
    allow_list = True
    commit_method = "PATCH"

    _query_mapping = base.query(
        "accelerator",
        "name",
        "state",
        "visibility",
        "shape",
        "all_projects",
        "project_id",
    )

    #: Requests may contain it, but the API never returns it.
    signature = resource.Body("signature")


class LibraryProxy(base.Proxy):
    """The part of the pool's API for the library."""

    def accelerators(self, **query: Any) -> Generator[Accelerator, None, None]:
        """Return the accelerators of the library."""
        return self._list(Accelerator, **query)

    def get_accelerator(self, name: str) -> Accelerator:
        return self._get(Accelerator, name)

    def bitstreams(self, **query: Any) -> Generator[Bitstream, None, None]:
        """Return the bitstreams that your own project may see.

        :param query: ``accelerator``, ``name``, ``state``, ``visibility``,
            ``shape``, ``all_projects``, ``project_id``.
        """
        return self._list(Bitstream, **query)

    def get_bitstream(self, bitstream_id: str) -> Bitstream:
        return self._get(Bitstream, bitstream_id)

    def create_bitstream(self, **attributes: Any) -> Bitstream:
        """Create a bitstream; upload its file afterwards.

        :param attributes: ``accelerator`` and optionally ``name``,
            ``description``, ``version``, ``format``, ``visibility``,
            ``shapes``, ``profile``, ``properties``, ``checksum_sha256``,
            ``signature``.
        """
        return self._create(Bitstream, **attributes)

    def update_bitstream(
        self, bitstream: str | Bitstream, **attributes: Any
    ) -> Bitstream:
        """Change the metadata of a bitstream.

        :param attributes: ``name``, ``description``, ``visibility``.
        """
        return self._update(Bitstream, bitstream, **attributes)

    def upload_bitstream(
        self, bitstream: str | Bitstream, file: IO[bytes]
    ) -> Bitstream:
        """Send a bitstream's file.

        :param file: an open, seekable file, sent from its current position.
        """
        headers = {"Content-Type": _OCTETS}
        return self._act(
            Bitstream, bitstream, "PUT", "file", data=file, headers=headers
        )

    def download_bitstream(
        self, bitstream: str | Bitstream
    ) -> Iterator[bytes]:
        """Yield the parts of a bitstream's file.

        :raises openstack.exceptions.SDKException: at the end, if the checksum
            is wrong.
        """
        headers = {"Accept": _OCTETS}
        response = self._send(
            Bitstream, bitstream, "GET", "file", stream=True, headers=headers
        )
        found = hashlib.sha256()
        with response:
            for chunk in response.iter_content(_CHUNK_BYTES):
                found.update(chunk)
                yield chunk
        if response.headers.get("ETag", "").strip('"') != found.hexdigest():
            raise exceptions.SDKException(
                "the downloaded file does not match the library's checksum;"
                " download it again"
            )

    def approve_bitstream(
        self,
        bitstream: str | Bitstream,
        *,
        force: bool = False,
        reason: str = "",
    ) -> Bitstream:
        """Approve a bitstream, so that slots may run it.

        :param force: approve it even if it fits no slot of the pool.
        """
        body = {"approve": {"force": force, "reason": reason}}
        return self._act(Bitstream, bitstream, "POST", "approve", json=body)

    def reject_bitstream(
        self, bitstream: str | Bitstream, reason: str
    ) -> Bitstream:
        """Reject a bitstream, so that no slot runs it."""
        body = {"reject": {"reason": reason}}
        return self._act(Bitstream, bitstream, "POST", "reject", json=body)

    def share_bitstream(
        self, bitstream: str | Bitstream, project_id: str
    ) -> Bitstream:
        """Let another project use a bitstream."""
        return self._act(Bitstream, bitstream, "PUT", "projects", project_id)

    def unshare_bitstream(
        self, bitstream: str | Bitstream, project_id: str
    ) -> None:
        """Stop sharing a bitstream with another project."""
        self._send(Bitstream, bitstream, "DELETE", "projects", project_id)

    def delete_bitstream(
        self, bitstream: str | Bitstream, ignore_missing: bool = True
    ) -> None:
        """Delete a bitstream and its file."""
        self._delete(Bitstream, bitstream, ignore_missing=ignore_missing)
