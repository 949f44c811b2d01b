# SPDX-License-Identifier: Apache-2.0

"""Bitstreams of the library."""

from fpgapool.api.schemas import common
from fpgapool.bitstreams import library
from fpgapool.bitstreams import properties
from fpgapool.objects import bitstream

#: A name that is no path and can be shown in one line.
_NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[^/\\\x00-\x1f\x7f]+$",
}
_LINE = {"type": "string", "maxLength": 255, "pattern": r"^[^\x00-\x1f\x7f]*$"}
_DESCRIPTION = {
    "type": "string",
    "maxLength": 1000,
    "pattern": r"^[^\x00-\x08\x0b-\x1f\x7f]*$",
}
_ACCELERATOR = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
}
_VERSION = common.described(
    {
        "type": "string",
        "minLength": 1,
        "maxLength": 64,
        "pattern": r"^[A-Za-z0-9!+._-]+$",
    },
    "As Python packages have them, such as `1.10` or `2.0rc1`; of several"
    " approved ones for a slot's shape the newest is used.",
)
_SHAPES = {
    "type": "array",
    "maxItems": 64,
    "items": _NAME,
}
_CHECKSUM = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_SIGNATURE = {
    "type": "string",
    "maxLength": 2048,
    "pattern": "^[A-Za-z0-9+/]+={0,2}$",
}
_STATE = common.one_of(*library.STATES)
_FORMAT = common.described(
    common.one_of(*bitstream.FORMATS),
    "`declaration` is a description that the emulator reads.",
)

_PROFILE_MEMBERS = {
    "description": _DESCRIPTION,
    "peak_bytes_per_s": common.described(
        {"type": "number", "minimum": 1, "maximum": 1e15},
        "Rate of the input in one slot, at most.",
    ),
    "return_ratio": common.described(
        {"type": "number", "minimum": 0, "maximum": 1000},
        "Bytes of output for each byte of input.",
    ),
    "stateless": common.described(
        common.FLAG, "Whether a session can go on in another slot."
    ),
    "params_schema": common.described(
        {"type": "object"}, "JSON schema of the parameters of a session."
    ),
    "chunk_multiple_bytes": common.described(
        {"type": "integer", "minimum": 1, "maximum": 2**20},
        "Every chunk of the input but the last is a multiple.",
    ),
    "core": common.described(
        {**_LINE, "maxLength": 64},
        "Name of the software core that computes the same.",
    ),
}
_PROFILE = common.described(
    common.record(optional=list(_PROFILE_MEMBERS), **_PROFILE_MEMBERS),
    "What the accelerator is like; a new one needs `peak_bytes_per_s` at"
    " least. Files of the format `declaration` say it themselves.",
)
_PROPERTIES = common.described(
    common.record(
        optional=properties.NAMES,
        **dict.fromkeys(properties.NAMES, _LINE),
    ),
    "What else there is to say, by the names of Cyborg's specification.",
)

BITSTREAM = common.record(
    id=common.UUID,
    name=common.TEXT,
    description=common.TEXT,
    project_id=common.TEXT,
    accelerator=common.described(
        common.TEXT, "What it implements, by its plain name."
    ),
    key=common.described(
        common.TEXT,
        "By which any project that may use it can name the accelerator.",
    ),
    version=common.TEXT,
    format=_FORMAT,
    state=common.described(_STATE, "Slots run only what is `approved`."),
    reason=common.described(common.TEXT, "Why it was decided so."),
    visibility=common.one_of(*library.VISIBILITIES),
    projects=common.described(
        {"type": "array", "items": common.TEXT},
        "With which it is shared; only its owner sees that.",
    ),
    shapes=common.described(
        {"type": "array", "items": common.TEXT}, "Of the slots that it fits."
    ),
    compatible=common.described(
        common.FLAG, "Whether the pool has a slot that it fits."
    ),
    profile={"type": "object"},
    properties={"type": "object"},
    checksum_sha256=common.nullable(_CHECKSUM),
    size_bytes=common.described(
        common.nullable(common.COUNT), "Null until there is a file."
    ),
    signed_by=common.described(
        common.nullable(common.TEXT),
        "Name of the trusted key that the signature was verified with.",
    ),
    created_at=common.TIME,
    updated_at=common.TIME,
    uploaded_at=common.nullable(common.TIME),
    decided_at=common.nullable(common.TIME),
    links=common.LINKS,
)

_CREATE_MEMBERS = {
    "accelerator": _ACCELERATOR,
    "name": common.described(_NAME, "Default is that of the accelerator."),
    "description": _DESCRIPTION,
    "version": _VERSION,
    "format": _FORMAT,
    "visibility": common.described(
        common.one_of(library.PRIVATE, library.PUBLIC),
        "Default is `private`; administrators can make it public.",
    ),
    "shapes": common.described(
        _SHAPES, "Of the slots that it fits; at least one for a new file."
    ),
    "profile": _PROFILE,
    "properties": _PROPERTIES,
    "checksum_sha256": common.described(
        _CHECKSUM, "If given, the file must have it."
    ),
    "signature": common.described(
        _SIGNATURE, "Of the file's SHA-256 by a trusted key, base64."
    ),
}

CREATE = common.record(
    bitstream=common.record(
        optional=[name for name in _CREATE_MEMBERS if name != "accelerator"],
        **_CREATE_MEMBERS,
    )
)

LIST_QUERY = common.list_query(
    ["created_at", "name", "accelerator", "state", "updated_at"],
    accelerator=common.NAME,
    name=common.NAME,
    state=_STATE,
    visibility=common.one_of(*library.VISIBILITIES),
    shape=common.described(common.NAME, "That fit slots of this shape."),
    all_projects=common.described(
        common.FLAG, "Whether those of other projects are shown, too."
    ),
    project_id=common.described(
        common.NAME, "Of this project only; another one's need `all_projects`."
    ),
)
LIST = common.page_of("bitstreams", BITSTREAM)
SHOW = common.record(bitstream=BITSTREAM)

UPDATE = common.record(
    bitstream={
        **common.record(
            optional=["name", "description", "visibility"],
            name=_NAME,
            description=_DESCRIPTION,
            visibility=common.described(
                common.one_of(library.PRIVATE, library.PUBLIC),
                "A private one is shared with nobody then.",
            ),
        ),
        "minProperties": 1,
    }
)

APPROVE = common.record(
    approve=common.record(
        optional=["force", "reason"],
        force=common.described(
            common.FLAG, "Even if the pool has no slot that it fits."
        ),
        reason=_DESCRIPTION,
    )
)
REJECT = common.record(reject=common.record(reason=_DESCRIPTION))
