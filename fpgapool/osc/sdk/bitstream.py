# SPDX-License-Identifier: Apache-2.0

"""Bitstreams of the library."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import IO
from typing import Any
from typing import Self

from keystoneauth1 import adapter
from openstack import exceptions
from openstack import resource
from openstack import utils

from fpgapool.osc.sdk import base

_OCTETS = "application/octet-stream"
_CHUNK_BYTES = 1 << 20


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

    description = resource.Body("description")
    project_id = resource.Body("project_id")
    #: Plain name of the accelerator that it implements.
    accelerator = resource.Body("accelerator")
    #: Name of the accelerator for all projects that may use it.
    key = resource.Body("key")
    version = resource.Body("version")
    #: ``binary`` or ``declaration``.
    format = resource.Body("format")
    #: ``uploading``, ``unapproved``, ``approved`` or ``rejected``.
    state = resource.Body("state")
    #: Reason of the approval or rejection.
    reason = resource.Body("reason")
    #: ``private``, ``shared`` or ``public``.
    visibility = resource.Body("visibility")
    projects = resource.Body("projects", type=list)
    shapes = resource.Body("shapes", type=list)
    #: Whether the pool has a slot that fits.
    is_compatible = resource.Body("compatible", type=bool)
    profile = resource.Body("profile", type=dict)
    properties = resource.Body("properties", type=dict)
    checksum_sha256 = resource.Body("checksum_sha256")
    size_bytes = resource.Body("size_bytes", type=int)
    #: Name of the trusted key that has signed it.
    signed_by = resource.Body("signed_by")
    created_at = resource.Body("created_at")
    updated_at = resource.Body("updated_at")
    uploaded_at = resource.Body("uploaded_at")
    decided_at = resource.Body("decided_at")
    #: Only in requests.
    signature = resource.Body("signature")

    def upload(self, session: adapter.Adapter, file: IO[bytes]) -> Self:
        """Send its file.

        :param file: open, seekable; sent from its current position.
        """
        response = session.put(
            utils.urljoin(self.base_path, self.id, "file"),
            data=file,
            headers={"Content-Type": _OCTETS},
            microversion=self._get_microversion(session),
        )
        self._translate_response(response)
        return self

    def download(self, session: adapter.Adapter) -> Iterator[bytes]:
        """Yield the parts of its file.

        :raises openstack.exceptions.SDKException: at the end, if the checksum
            is wrong.
        """
        response = session.get(
            utils.urljoin(self.base_path, self.id, "file"),
            stream=True,
            headers={"Accept": _OCTETS},
            microversion=self._get_microversion(session),
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
        return self._act(session, "approve", body)

    def reject(self, session: adapter.Adapter, reason: str) -> Self:
        """Reject it, so that no slot runs it."""
        return self._act(session, "reject", {"reject": {"reason": reason}})

    def share(self, session: adapter.Adapter, project_id: str) -> Self:
        """Let another project use it."""
        response = session.put(
            utils.urljoin(self.base_path, self.id, "projects", project_id),
            microversion=self._get_microversion(session),
        )
        self._translate_response(response)
        return self

    def unshare(self, session: adapter.Adapter, project_id: str) -> None:
        """Stop sharing it with another project."""
        session.delete(
            utils.urljoin(self.base_path, self.id, "projects", project_id),
            microversion=self._get_microversion(session),
        )

    def _act(
        self, session: adapter.Adapter, action: str, body: dict[str, Any]
    ) -> Self:
        response = session.post(
            utils.urljoin(self.base_path, self.id, action),
            json=body,
            microversion=self._get_microversion(session),
        )
        self._translate_response(response)
        return self
