# SPDX-License-Identifier: Apache-2.0

"""JSON, several times as fast as the standard library's.

For remote calls, ``oslo_serialization.jsonutils`` does what it refuses: texts
that are not Unicode, objects of other libraries, and numbers that are not
finite. Such numbers are written as null, since JSON has none.
"""

from __future__ import annotations

from typing import Any

import msgspec
from oslo_serialization import jsonutils

from fpgapool.protocol import frames

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def dump_as_bytes(value: Any) -> bytes:
    """Return a value in JSON."""
    try:
        return _encode(value)
    except (TypeError, ValueError):
        encoded: bytes = jsonutils.dump_as_bytes(value)
        return encoded


def dumps(value: Any) -> str:
    """Return a value in JSON; see :func:`dump_as_bytes`."""
    return dump_as_bytes(value).decode()


def loads(text: str | bytes) -> Any:
    """Return the value of a text in JSON."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return jsonutils.loads(text)


def decode_json(payload: frames.Buffer) -> dict[str, Any]:
    """Do what :func:`frames.decode_json` does."""
    if len(payload) <= frames.MAX_JSON_BYTES:
        try:
            document = _decode(payload)
        except (msgspec.DecodeError, ValueError, RecursionError):
            # The other decoder gives the exact reasons.
            return frames.decode_json(payload)
        if isinstance(document, dict):
            return document
    return frames.decode_json(payload)
