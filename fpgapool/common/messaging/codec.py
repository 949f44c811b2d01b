# SPDX-License-Identifier: Apache-2.0

"""A JSON codec, several times as fast as the standard library's.

For remote calls, ``oslo_serialization.jsonutils`` handles what this codec
rejects, such as invalid Unicode and objects of other libraries. Numbers that
are not finite are written as null, because JSON cannot represent them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from oslo_serialization import jsonutils

from fpgapool.protocol import frames

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def dump_as_bytes(value: Any) -> bytes:
    """Encode a value as JSON."""
    try:
        return _encode(value)
    except (TypeError, ValueError):
        encoded: bytes = jsonutils.dump_as_bytes(value)
        return encoded


def dumps(value: Any) -> str:
    """Encode a value as JSON; see :func:`dump_as_bytes`."""
    return dump_as_bytes(value).decode()


def loads(text: str | bytes) -> Any:
    """Decode JSON."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return jsonutils.loads(text)


def decode_json(payload: frames.Buffer) -> dict[str, Any]:
    """Do the same as :func:`frames.decode_json`, but faster."""
    if len(payload) <= frames.MAX_JSON_BYTES:
        try:
            document = _decode(payload)
        except (msgspec.DecodeError, ValueError, RecursionError):
            # The slower function reports the exact reason.
            return frames.decode_json(payload)
        if isinstance(document, dict):
            return document
    return frames.decode_json(payload)
