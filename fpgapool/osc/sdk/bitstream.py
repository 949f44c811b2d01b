# SPDX-License-Identifier: Apache-2.0

"""Bitstreams of the library."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import IO
from typing import Self

from keystoneauth1 import adapter
from openstack import exceptions
from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import library

_OCTETS = "application/octet-stream"
_CHUNK_BYTES = 1 << 20


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

    #: Only in requests.
    signature = resource.Body("signature")

    def upload(self, session: adapter.Adapter, file: IO[bytes]) -> Self:
        """Send its file.

        :param file: open, seekable; sent from its current position.
        """
        headers = {"Content-Type": _OCTETS}
        return self._act(session, "PUT", "file", data=file, headers=headers)

    def download(self, session: adapter.Adapter) -> Iterator[bytes]:
        """Yield the parts of its file.

        :raises openstack.exceptions.SDKException: at the end, if the checksum
            is wrong.
        """
        headers = {"Accept": _OCTETS}
        response = self._send(
            session, "GET", "file", stream=True, headers=headers
        )
        found = hashlib.sha256()
        for chunk in response.iter_content(_CHUNK_BYTES):
            found.update(chunk)
            yield chunk
        if response.headers.get("ETag", "").strip('"') != found.hexdigest():
            raise exceptions.SDKException(
                "the downloaded file differs from that in the library"
            )

    def approve(
        self, session: adapter.Adapter, *, force: bool, reason: str
    ) -> Self:
        """Approve it, so that slots may run it.

        :param force: approve it even if the pool has no slot that fits.
        """
        body = {"approve": {"force": force, "reason": reason}}
        return self._act(session, "POST", "approve", json=body)

    def reject(self, session: adapter.Adapter, reason: str) -> Self:
        """Reject it, so that no slot runs it."""
        body = {"reject": {"reason": reason}}
        return self._act(session, "POST", "reject", json=body)

    def share(self, session: adapter.Adapter, project_id: str) -> Self:
        """Let another project use it."""
        return self._act(session, "PUT", "projects", project_id)

    def unshare(self, session: adapter.Adapter, project_id: str) -> None:
        """Stop sharing it with another project."""
        self._send(session, "DELETE", "projects", project_id)
