# SPDX-License-Identifier: Apache-2.0

"""Accelerators and bitstreams of the library."""

from fpgapool.api.schemas import common
from fpgapool.bitstreams import library
from fpgapool.bitstreams import properties
from fpgapool.vocabulary import library as description
from fpgapool.vocabulary import rules

#: A name that is not a path and fits on one line.
_NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    **common.matching(
        r"^[^/\\\x00-\x1f\x7f]+$",
        "a name on one line, without / \\ or control characters",
    ),
}
_LINE = {
    "type": "string",
    "maxLength": 255,
    **common.matching(
        r"^[^\x00-\x1f\x7f]*$",
        "one line without control characters",
    ),
}
_DESCRIPTION = {
    "type": "string",
    "maxLength": 1000,
    **common.matching(
        r"^[^\x00-\x08\x0b-\x1f\x7f]*$",
        "text without control characters",
    ),
}
_ACCELERATOR = {
    "type": "string",
    **common.matching(
        r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", rules.GROUP_NAME_WORDS
    ),
}
_VERSION = common.described(
    {
        "type": "string",
        "minLength": 1,
        "maxLength": 64,
        **common.matching(
            r"^[A-Za-z0-9!+._-]+$",
            "a version made of the characters A-Z a-z 0-9 ! + . _ -",
        ),
    },
    "Version in the format of Python packages, such as `1.10` or `2.0rc1`; the"
    " pool uses the newest approved version for a slot's shape.",
)
_SHAPES = {
    "type": "array",
    "maxItems": 64,
    "items": _NAME,
}
_CHECKSUM = {
    "type": "string",
    **common.matching("^[0-9a-f]{64}$", "64 of the characters 0-9 a-f"),
}
_SIGNATURE = {
    "type": "string",
    "maxLength": 2048,
    **common.matching("^[A-Za-z0-9+/]+={0,2}$", "a signature in base64"),
}
_PROFILE_MEMBERS = {
    "description": _DESCRIPTION,
    "core": common.described(
        {**_LINE, "maxLength": 64},
        "Name of the software core with the same function.",
    ),
    **common.of_fields(description.PROFILE.shown),
}
_PROFILE = common.described(
    common.record(optional=list(_PROFILE_MEMBERS), **_PROFILE_MEMBERS),
    "The accelerator's profile; a new accelerator needs at least"
    " `peak_bytes_per_s`. Files in the format `declaration` contain the"
    " profile, and packages contain part of it.",
)
_PROPERTIES = common.described(
    common.record(
        optional=properties.NAMES,
        **{
            name: common.described(_LINE, meaning)
            for name, meaning in properties.MEANINGS.items()
        },
    ),
    "Further properties, with the names from Cyborg's specification.",
)

ACCELERATOR = common.resource(description.ACCELERATOR, optional=["platforms"])
ACCELERATORS = common.listing(
    "accelerators", ACCELERATOR, description.ACCELERATOR
)
SHOW_ACCELERATOR = common.record(
    accelerator=common.described(ACCELERATOR, "The accelerator.")
)

BITSTREAM = common.resource(description.BITSTREAM)
BITSTREAMS = common.listing(
    "bitstreams",
    BITSTREAM,
    description.BITSTREAM,
    shape=common.described(common.NAME, "Only those that fit this shape."),
    **common.PROJECT_FILTERS,
)
SHOW_BITSTREAM = common.record(bitstream=BITSTREAM)

_CREATE_MEMBERS = {
    "accelerator": common.described(
        _ACCELERATOR,
        "Name of the accelerator that it implements, without `@project`.",
    ),
    "name": common.described(_NAME, "Default is the accelerator's name."),
    "description": _DESCRIPTION,
    "version": _VERSION,
    "format": BITSTREAM["properties"]["format"],
    "visibility": common.described(
        common.one_of(library.PRIVATE, library.PUBLIC),
        "Default is `private`; administrators can make it public.",
    ),
    "shapes": common.described(
        _SHAPES,
        "Shapes of slots that it fits; at least one, unless the file contains"
        " them.",
    ),
    "profile": _PROFILE,
    "properties": _PROPERTIES,
    "checksum_sha256": common.described(
        _CHECKSUM, "If given, the file must have this SHA-256."
    ),
    "signature": common.described(
        _SIGNATURE,
        "Signature of the file's SHA-256 by a trusted key, in base64.",
    ),
}

CREATE = common.record(
    bitstream=common.record(
        optional=[name for name in _CREATE_MEMBERS if name != "accelerator"],
        **_CREATE_MEMBERS,
    )
)

UPDATE = common.record(
    bitstream={
        **common.record(
            optional=["name", "description", "visibility"],
            name=_NAME,
            description=_DESCRIPTION,
            visibility=common.described(
                common.one_of(library.PRIVATE, library.PUBLIC),
                "`private` also ends all sharing.",
            ),
        ),
        "minProperties": 1,
    }
)

APPROVE = common.record(
    approve=common.record(
        optional=["force", "reason"],
        force=common.described(
            common.FLAG, "Approve it even if it fits no slot of the pool."
        ),
        reason=_DESCRIPTION,
    )
)
REJECT = common.record(reject=common.record(reason=_DESCRIPTION))
