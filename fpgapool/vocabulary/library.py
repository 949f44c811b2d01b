# SPDX-License-Identifier: Apache-2.0

"""The members of accelerators and bitstreams."""

from __future__ import annotations

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import platforms

_PEAK = "Highest input rate in one slot."
_RETURN_RATIO = "Bytes of output for each byte of input."
_STATELESS = "Whether a session can continue in another slot."
_PARAMS_SCHEMA = "JSON schema of the parameters of a session."
_CHUNK_MULTIPLE = (
    "The size of every chunk of input except the last is a multiple of this."
)
_CORE = "Name of the software core with the same function."
_PLATFORMS = (
    "Highest input rate and, if known, power of a working slot, by the slot's"
    " shape. For slots of other shapes, `peak_bytes_per_s` applies."
)

ACCELERATOR = fields.Fields(
    fields.shown("name", fields.NAME, column=True),
    fields.shown("description", fields.TEXT, column=True),
    fields.shown(
        "peak_bytes_per_s",
        fields.RATE,
        _PEAK,
        column=True,
        title="Peak Bytes/s",
    ),
    fields.shown(
        "is_stateless",
        fields.FLAG,
        _STATELESS,
        shown="stateless",
        column=True,
        title="Stateless",
    ),
    fields.shown("return_ratio", fields.NUMBER, _RETURN_RATIO),
    fields.shown(
        "shapes",
        fields.NAMES,
        "Shapes of slots that can run it, as reported by their agents; empty"
        " means any, `-` means none.",
    ),
    fields.shown("chunk_multiple_bytes", fields.COUNT, _CHUNK_MULTIPLE),
    fields.shown("core", fields.TEXT, _CORE),
    fields.shown("params_schema", fields.OBJECT, _PARAMS_SCHEMA, column=None),
    fields.shown(
        "platforms",
        fields.OBJECT,
        _PLATFORMS,
        column=None,
        limits=platforms.SCHEMA,
    ),
    sort_keys=("name",),
)

#: The properties of a new accelerator that its bitstream may define.
PROFILE = fields.Fields(
    fields.shown(
        "peak_bytes_per_s",
        fields.NUMBER,
        _PEAK,
        limits={"minimum": 1, "maximum": 1e15},
    ),
    fields.shown(
        "return_ratio",
        fields.NUMBER,
        _RETURN_RATIO,
        limits={"minimum": 0, "maximum": 1000},
    ),
    fields.shown("stateless", fields.FLAG, _STATELESS),
    fields.shown("params_schema", fields.OBJECT, _PARAMS_SCHEMA),
    fields.shown(
        "chunk_multiple_bytes",
        fields.INTEGER,
        _CHUNK_MULTIPLE,
        limits={"minimum": 1, "maximum": 2**20},
    ),
    fields.shown(
        "platforms", fields.OBJECT, _PLATFORMS, limits=platforms.SCHEMA
    ),
)

#: States of bitstreams, and who may use them.
BITSTREAM_STATES = ("uploading", "unapproved", "approved", "rejected")
VISIBILITIES = ("private", "shared", "public")
_ACCESS = ("visibility", "project_id")

BITSTREAM = fields.Fields(
    fields.stored(
        "bitstream_id", fields.UUID, length=36, shown="id", column=True
    ),
    fields.stored("name", fields.TEXT, column=True, length=255),
    fields.shown(
        "key",
        fields.TEXT,
        "Name of the accelerator for all projects that may use it.",
        column=True,
        title="Accelerator",
    ),
    fields.stored(
        "version",
        fields.TEXT,
        "Version; the pool uses the newest approved version.",
        column=True,
        length=64,
    ),
    fields.stored(
        "state",
        fields.STATE,
        "Slots run only `approved` bitstreams.",
        column=True,
        length=16,
        limits={"enum": list(BITSTREAM_STATES)},
    ),
    fields.shown(
        "visibility",
        fields.TEXT,
        column=True,
        limits={"enum": list(VISIBILITIES)},
    ),
    fields.stored(
        "shapes", fields.NAMES, "Shapes of slots that it fits.", default=()
    ),
    fields.shown(
        "is_compatible",
        fields.FLAG,
        "Whether the pool has a slot that it fits.",
        shown="compatible",
        title="Compatible",
    ),
    fields.stored(
        "format",
        fields.TEXT,
        "`declaration` is a description for emulated boards; `opencl-source`,"
        " `opencl-binary` and `xclbin` are packages with a manifest.",
        limits={"enum": list(formats.FORMATS)},
        length=16,
    ),
    fields.shown(
        "size_bytes",
        fields.COUNT,
        "Null until there is a file.",
        default=None,
    ),
    fields.shown(
        "checksum_sha256",
        fields.TEXT,
        default=None,
        title="SHA-256",
        limits={"pattern": "^[0-9a-f]{64}$"},
    ),
    fields.shown(
        "signed_by",
        fields.TEXT,
        "Name of the trusted key that verified the signature.",
        default=None,
    ),
    fields.stored("project_id", fields.TEXT, length=255),
    fields.stored("created_at", fields.MOMENT),
    fields.stored("description", fields.TEXT, column=None, default=""),
    fields.stored(
        "accelerator",
        fields.TEXT,
        "Name of the accelerator that it implements, without `@project`.",
        column=None,
        length=255,
    ),
    fields.stored(
        "reason",
        fields.TEXT,
        "Reason for the approval or rejection.",
        column=None,
        default="",
    ),
    fields.stored(
        "projects",
        fields.NAMES,
        "Projects that it is shared with; only its owner sees them.",
        column=None,
        default=(),
    ),
    fields.shown("profile", fields.OBJECT, column=None),
    fields.shown("properties", fields.OBJECT, column=None),
    fields.stored("updated_at", fields.MOMENT, column=None),
    fields.stored("uploaded_at", fields.TIME, column=None, default=None),
    fields.stored("decided_at", fields.TIME, column=None, default=None),
    sort_keys=("created_at", "name", "accelerator", "state", "updated_at"),
    filters={
        name: name for name in ("accelerator", "name", "state", *_ACCESS)
    },
)
