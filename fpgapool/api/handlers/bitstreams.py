# SPDX-License-Identifier: Apache-2.0

"""Bitstreams: create, upload, approve, reject, share, download, delete."""

from __future__ import annotations

import contextlib
import hmac
import operator
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.answers import views
from fpgapool.api.http import errors
from fpgapool.api.http import rights
from fpgapool.bitstreams import contents
from fpgapool.bitstreams import intake
from fpgapool.bitstreams import library
from fpgapool.bitstreams import signatures
from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.objects import bitstream
from fpgapool.objects import declaration
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import library as description
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import shapes

_OCTETS = "application/octet-stream"
# Members of documents that rows do not have.
_VALUES: Mapping[str, Callable[[db_api.BitstreamRecord], Any]] = {
    "id": lambda record: record.bitstream_id,
    "visibility": library.visibility_of,
}

_PROJECT_ID = shapes.text(64, least=1, printable=True)

#: Errors after which the conductor may have made the change anyway.
_UNCERTAIN = frozenset({codes.DATABASE_UNAVAILABLE})


def index(call: calls.Call) -> calls.Answer:
    """List the bitstreams that your project may see."""
    query = call.query
    wants_all = bool(query.get("all_projects"))
    if wants_all:
        call.require(rights.BITSTREAMS_LIST_ALL)
    page = paging.chosen(
        call,
        description.BITSTREAM,
        [
            record
            for record in call.backends.database.bitstreams()
            if (wants_all or library.is_visible(record, call.project_id))
            and query.get("shape", None) in (None, *record.shapes)
        ],
        lambda member: _VALUES.get(member, operator.attrgetter(member)),
    )
    shapes = _shapes(call)
    members = [_document(call, record, shapes) for record in page]
    return calls.Answer(document=paging.document(call, "bitstreams", members))


def show(call: calls.Call) -> calls.Answer:
    """Show a bitstream."""
    return _answer(call, _find(call))


def create(call: calls.Call) -> calls.Answer:
    """Create a bitstream without its file; the file is uploaded later."""
    wanted = dict(call.body["bitstream"])
    public = wanted.pop("visibility", library.PRIVATE) == library.PUBLIC
    if public:
        call.require(rights.BITSTREAMS_PUBLISH)
    if not wanted.get("signature") and signatures.is_needed(
        wanted.get("format", formats.BINARY), _files(call).signature_required
    ):
        raise errors.ApiError(
            codes.SIGNATURE_REQUIRED,
            "the pool accepts only bitstreams signed by a trusted key",
        )
    _check_profile(wanted.get("profile", {}))
    wanted["shapes"] = tuple(dict.fromkeys(wanted.get("shapes", ())))
    bitstream_id = str(uuid.uuid4())
    defaults = {"name": wanted["accelerator"], "version": "1.0"}
    _change(
        call,
        objects.CreateBitstream(
            bitstream_id=bitstream_id,
            project_id=call.project_id,
            user_id=call.caller.user_id or "",
            public=public,
            **{**defaults, **wanted},
        ),
    )
    return _answer(
        call,
        _reread(call, bitstream_id),
        status=201,
        headers={"Location": call.url("bitstreams", bitstream_id)},
    )


def update(call: calls.Call) -> calls.Answer:
    """Change the metadata of a bitstream."""
    record = _find(call)
    call.require(call.policy, record.project_id)
    wanted = call.body["bitstream"]
    public: bool | None = None
    if "visibility" in wanted:
        public = wanted["visibility"] == library.PUBLIC
        if public or record.public:
            call.require(rights.BITSTREAMS_PUBLISH)
    call.audit.before = {
        "name": record.name,
        "description": record.description,
        "visibility": library.visibility_of(record),
    }
    _change(
        call,
        objects.UpdateBitstream(
            bitstream_id=record.bitstream_id,
            name=wanted.get("name"),
            description=wanted.get("description"),
            public=public,
        ),
    )
    return _answer(call, _reread(call, record.bitstream_id))


def delete(call: calls.Call) -> calls.Answer:
    """Delete a bitstream and its file."""
    record = _find(call)
    call.require(call.policy, record.project_id)
    call.audit.before = {"name": record.name, "state": record.state}
    _change(call, objects.DeleteBitstream(bitstream_id=record.bitstream_id))
    call.audit.record_own(
        call.caller,
        "bitstream delete",
        {
            "bitstream_id": record.bitstream_id,
            "accelerator": library.key_of(record),
            "checksum_sha256": record.checksum_sha256,
        },
    )
    if record.location:
        # The bitstream itself is deleted. If its file cannot be deleted now,
        # the sweeper removes it later.
        with contextlib.suppress(
            exception.StoreFailed, exception.StoreUnavailable
        ):
            _files(call).store.delete(record.location)
    return calls.NO_CONTENT


def approve(call: calls.Call) -> calls.Answer:
    """Approve a bitstream for use in slots."""
    wanted = call.body["approve"]
    record = _find(call)
    return _decide(
        call,
        objects.DecideBitstream(
            bitstream_id=record.bitstream_id,
            approve=True,
            user_id=call.caller.user_id or "",
            reason=wanted.get("reason", ""),
            force=wanted.get("force", False),
            signed_by=_signer(call, record, record.checksum_sha256),
        ),
        record,
    )


def reject(call: calls.Call) -> calls.Answer:
    """Reject a bitstream."""
    record = _find(call)
    return _decide(
        call,
        objects.DecideBitstream(
            bitstream_id=record.bitstream_id,
            approve=False,
            user_id=call.caller.user_id or "",
            reason=call.body["reject"]["reason"],
        ),
        record,
    )


def share(call: calls.Call) -> calls.Answer:
    """Share a bitstream with another project."""
    return _share(call, True)


def unshare(call: calls.Call) -> calls.Answer:
    """Stop sharing a bitstream with a project."""
    _share(call, False)
    return calls.NO_CONTENT


def upload(call: calls.Call) -> calls.Answer:
    """Upload and check a bitstream's file."""
    record = _find(call)
    call.require(call.policy, record.project_id)
    if record.state != library.UPLOADING:
        raise errors.ApiError(
            codes.BITSTREAM_HAS_FILE, "the bitstream already has a file"
        )
    files = _files(call)
    files.sweeper.maybe()
    incoming = _incoming(call, record, files)
    # Each upload occupies a thread for as long as it lasts.
    with files.uploads.place(call.project_id):
        location = files.store.write(record, incoming)
        with _kept_if_right(call, record.bitstream_id, location):
            _change(call, _checked(call, record, incoming, location))
    return _answer(call, _reread(call, record.bitstream_id))


def download(call: calls.Call) -> calls.Answer:
    """Download a bitstream's file."""
    record = _find(call)
    call.require(call.policy, record.project_id)
    if not record.location:
        raise errors.ApiError(
            codes.BITSTREAM_HAS_NO_FILE, "the bitstream has no file yet"
        )
    return calls.Answer(
        document=None,
        stream=_files(call).store.read(record.location),
        length_bytes=record.size_bytes,
        headers={
            "Content-Type": _OCTETS,
            "ETag": f'"{record.checksum_sha256}"',
        },
    )


# Finding and showing.


def _find(call: calls.Call) -> db_api.BitstreamRecord:
    """Return the bitstream that the path identifies.

    :raises ApiError: if it does not exist or the caller may not see it.
    """
    wanted = call.path["bitstream_id"]
    record = call.backends.database.get_bitstream(wanted[:64].lower())
    if record is not None and (
        library.is_visible(record, call.caller.project_id)
        or call.may(rights.BITSTREAMS_ALL_PROJECTS)
    ):
        return record
    raise errors.missing(codes.BITSTREAM_NOT_FOUND, "bitstream", wanted)


def _reread(call: calls.Call, bitstream_id: str) -> db_api.BitstreamRecord:
    record = call.backends.database.get_bitstream(bitstream_id)
    if record is None:
        raise errors.ApiError(
            codes.BITSTREAM_NOT_FOUND, "the bitstream has just been deleted"
        )
    return record


def _files(call: calls.Call) -> calls.Files:
    files = call.backends.files
    if files is None:
        raise exception.StoreUnavailable(reason="this API does not have one")
    return files


def _shapes(call: calls.Call) -> set[str]:
    """Return the shapes of all slots of the pool."""
    return {one.shape for one in call.backends.database.inventory().slots}


def _answer(
    call: calls.Call, record: db_api.BitstreamRecord, **others: Any
) -> calls.Answer:
    return calls.Answer(
        document={"bitstream": _document(call, record, _shapes(call))},
        **others,
    )


def _document(
    call: calls.Call, record: db_api.BitstreamRecord, shapes: set[str]
) -> dict[str, Any]:
    is_own = record.project_id == call.caller.project_id
    knows_all = is_own or call.backends.enforcer.allows(
        call.caller,
        rights.BITSTREAMS_UPDATE,
        {"project_id": record.project_id},
    )
    return {
        **views.members(description.BITSTREAM, record, call.version),
        "key": library.key_of(record),
        "visibility": library.visibility_of(record),
        "projects": list(record.projects) if knows_all else [],
        "shapes": list(record.shapes),
        "compatible": library.fits(record, shapes),
        "profile": dict(record.profile),
        "properties": dict(record.properties),
        "checksum_sha256": record.checksum_sha256 or None,
        "size_bytes": record.size_bytes or None,
        "signed_by": record.signed_by or None,
        "links": calls.self_link(call.url("bitstreams", record.bitstream_id)),
    }


# Deciding and sharing.


def _change(call: calls.Call, change: bitstream.BitstreamChange) -> None:
    """Have the conductor record a change; later answers show it."""
    call.backends.conductor.change_bitstream(change)
    call.backends.library.forget()


def _decide(
    call: calls.Call,
    decision: objects.DecideBitstream,
    record: db_api.BitstreamRecord,
) -> calls.Answer:
    call.audit.before = {"state": record.state}
    _change(call, decision)
    return _answer(call, _reread(call, record.bitstream_id))


def _share(call: calls.Call, shared: bool) -> calls.Answer:
    record = _find(call)
    call.require(call.policy, record.project_id)
    project_id = rules.checked(
        _PROJECT_ID,
        call.path["project_id"],
        "project_id",
        codes.INVALID_REQUEST,
    )
    call.audit.before = {"projects": list(record.projects)}
    _change(
        call,
        objects.ShareBitstream(
            bitstream_id=record.bitstream_id,
            project_id=project_id,
            shared=shared,
        ),
    )
    return _answer(call, _reread(call, record.bitstream_id))


# Receiving a file.


def _incoming(
    call: calls.Call, record: db_api.BitstreamRecord, files: calls.Files
) -> intake.Intake:
    if call.stream is None:
        raise errors.ApiError(
            codes.LENGTH_REQUIRED, "the request must have a Content-Length"
        )
    most_bytes = files.max_size_bytes
    incoming = intake.Intake(
        call.stream,
        call.length_bytes,
        min(
            most_bytes, contents.MAX_SIZE_BYTES.get(record.format, most_bytes)
        ),
        timeout_s=files.upload_timeout_s,
    )
    incoming.check_length()
    return incoming


@contextlib.contextmanager
def _kept_if_right(
    call: calls.Call, bitstream_id: str, location: str
) -> Iterator[None]:
    """Remove the new file if the conductor refuses it."""
    try:
        yield
    except messaging.MessagingException:
        # The conductor may have accepted the file; otherwise the sweeper
        # removes it.
        raise
    except exception.FpgapoolException as error:
        if error.code not in _UNCERTAIN:
            _remove(call, bitstream_id, location)
        raise
    except errors.ApiError:
        _remove(call, bitstream_id, location)
        raise


def _remove(call: calls.Call, bitstream_id: str, location: str) -> None:
    # If a file cannot be removed now, the sweeper removes it later.
    with contextlib.suppress(exception.FpgapoolException):
        record = call.backends.database.get_bitstream(bitstream_id)
        # A second upload of the same file has the same location.
        if record is None or record.location != location:
            _files(call).store.delete(location)


def _checked(
    call: calls.Call,
    record: db_api.BitstreamRecord,
    incoming: intake.Intake,
    location: str,
) -> objects.UploadBitstream:
    """Check a file, and return the message that reports it to the conductor.

    :raises ApiError: if the file's checksum is wrong.
    :raises BitstreamRefused: if its signature or contents are invalid.
    """
    checksum = incoming.checksum_sha256
    expected = record.checksum_sha256
    if expected and not hmac.compare_digest(checksum, expected):
        raise errors.ApiError(
            codes.CHECKSUM_MISMATCH,
            f"the file's SHA-256 is {checksum}, not {expected}",
        )
    signed_by = _signer(call, record, checksum)
    found = contents.Contents(dict(record.profile), tuple(record.shapes))
    if record.format in contents.MAX_SIZE_BYTES:
        # Read it back from the store: keeping a slow upload in memory would
        # occupy that memory for a long time.
        pieces: Any = _files(call).store.read(location)
        with contextlib.closing(pieces):
            found = contents.read(record, pieces, incoming.size_bytes)
    return objects.UploadBitstream(
        bitstream_id=record.bitstream_id,
        checksum_sha256=checksum,
        size_bytes=incoming.size_bytes,
        location=location,
        signed_by=signed_by,
        shapes=found.shapes,
        profile=found.profile,
        resources=found.resources,
    )


def _signer(
    call: calls.Call, record: db_api.BitstreamRecord, checksum_sha256: str
) -> str:
    """Return the name of the trusted key that signed a file.

    :raises BitstreamRefused: if no trusted key has signed it although that is
        required, or if the signature is wrong.
    """
    files = _files(call)
    return files.trusted_keys.signer(
        record.signature,
        checksum_sha256,
        record.format,
        required=files.signature_required,
    )


def _check_profile(profile: dict[str, Any]) -> None:
    try:
        library.check_profile(profile)
        declaration.check_params_schema(profile.get("params_schema", {}))
    except ValueError as error:
        raise errors.ApiError(
            codes.INVALID_REQUEST, str(error)[:500]
        ) from error
