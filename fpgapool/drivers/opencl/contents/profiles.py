# SPDX-License-Identifier: Apache-2.0

"""Derives an accelerator's profile from a manifest."""

from __future__ import annotations

import typing

from fpgapool.drivers.opencl.contents import expressions
from fpgapool.drivers.opencl.contents import manifest as manifests
from fpgapool.drivers.opencl.contents import params as parameters

# Maximum chunk_multiple_bytes in a profile. A larger multiple is left out;
# only the core reports it.
_MAX_CHUNK_MULTIPLE_BYTES = 1 << 20
# Length of the piece for which the output ratio is computed.
_PIECE_BYTES = 1 << 20


def members(manifest: manifests.Manifest) -> dict[str, typing.Any]:
    """Return the members of a profile that a manifest determines.

    :returns: ``stateless`` and ``params_schema``; ``description`` and
        ``peak_bytes_per_s`` if the manifest has them; ``chunk_multiple_bytes``
        and ``return_ratio`` if they do not depend on parameters.
    """
    found: dict[str, typing.Any] = {
        "stateless": all(each.state is None for each in manifest.variants),
        "params_schema": _schema(manifest.params),
    }
    if manifest.description:
        found["description"] = manifest.description
    if manifest.peak_bytes_per_s is not None:
        found["peak_bytes_per_s"] = manifest.peak_bytes_per_s
    blocks = {_number(each.block_bytes) for each in manifest.variants}
    if len(blocks) > 1 or None in blocks:
        return found
    (block_bytes,) = blocks
    assert block_bytes is not None
    if 1 <= block_bytes <= _MAX_CHUNK_MULTIPLE_BYTES:
        found["chunk_multiple_bytes"] = block_bytes
        ratios = {_ratio(each, block_bytes) for each in manifest.variants}
        if len(ratios) == 1 and None not in ratios:
            (found["return_ratio"],) = ratios
    return found


def _number(
    expression: expressions.Expression, **variables: int
) -> int | None:
    """Return an expression's value; None if it depends on parameters."""
    if not expression.names <= variables.keys():
        return None
    try:
        return expression.value(variables)
    except ValueError:
        return None


def _ratio(variant: manifests.Variant, block_bytes: int) -> float | None:
    blocks = max(1, _PIECE_BYTES // block_bytes)
    size_bytes = blocks * block_bytes
    output_bytes = _number(
        variant.process.output_bytes,
        bytes=size_bytes,
        blocks=blocks,
        # A piece in the middle of the input.
        offset=size_bytes,
        first=0,
    )
    if output_bytes is None or output_bytes < 0:
        return None
    return output_bytes / size_bytes


def _schema(
    params: dict[str, parameters.Param],
) -> dict[str, typing.Any]:
    schema: dict[str, typing.Any] = {
        "type": "object",
        "additionalProperties": False,
    }
    if params:
        schema["properties"] = {
            name: each.schema() for name, each in params.items()
        }
    required = [name for name, each in params.items() if each.default is None]
    if required:
        schema["required"] = required
    return schema
