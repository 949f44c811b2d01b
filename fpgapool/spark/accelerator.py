# SPDX-License-Identifier: Apache-2.0

"""What a program says about an accelerator that its partitions use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.spark import codecs
from fpgapool.vocabulary import shapes


class Accelerator:
    """An accelerator of the pool, for the records of an RDD or DataFrame.

    Programs derive a class from it, and send its objects to executors.

    :cvar id: the accelerator's name in the pool, for example ``fft``.
    :cvar codec: encodes records.
    :cvar results: decodes results; None: ``codec`` does.

    :param arguments: data that is the same for all records, such as a model,
        by number; see :func:`fpgapool.client.acc_open`.
    """

    id: str
    params: Mapping[str, Any] = {}
    codec: codecs.Codec
    results: codecs.Codec | None = None

    def __init__(self, arguments: Mapping[int, Any] | None = None) -> None:
        self.arguments = arguments or {}

    @property
    def block_records(self) -> int:
        """How many records one result is for.

        It is the parameter of this name, which accelerators have that return
        a result for each block of records; else 1.
        """
        records: int = self.params.get("block_records", 1)
        return records

    @property
    def chunk_multiple_bytes(self) -> int:
        """The accelerator gets pieces of a multiple of this length.

        It is that of a record or block, as far as records have a length, and
        can be replaced by a longer one. Zero bytes are added to the last
        piece, except to blocks, of which the last may be short.
        """
        return (self.codec.record_bytes or 1) * self.block_records

    def call(self, element: Any) -> Any:
        """Return the result of one record, computed by the processor.

        It is used if neither the pool nor a software core of this machine can
        compute; without it such a partition fails. With ``block_records`` it
        gives more results than the accelerator does.

        :param element: the record, as ``codec`` decodes it.
        """
        raise NotImplementedError

    @property
    def has_call(self) -> bool:
        """Whether the program has defined :meth:`call`."""
        return type(self).call is not Accelerator.call


_NAME = shapes.text(least=1)
_COUNT = shapes.integer(1)


def check(accelerator: Accelerator) -> Accelerator:
    """Refuse an accelerator before any executor works with it.

    :raises errors.InvalidRequest: if it has no name, no codec, or wrong
        numbers.
    """
    if not isinstance(accelerator, Accelerator):
        raise errors.invalid(
            f"{accelerator!r} must be an instance of Accelerator"
        )
    for member, shape in (
        ("id", _NAME),
        ("codec", _codec),
        ("results", shapes.nullable(_codec)),
        ("chunk_multiple_bytes", _COUNT),
        ("block_records", _COUNT),
    ):
        value = getattr(accelerator, member, None)
        checks.argument(shape, value, f"{type(accelerator).__name__}.{member}")
    return accelerator


def _codec(value: object, where: str) -> codecs.Codec:
    if not isinstance(value, codecs.Codec):
        raise shapes.Invalid(where, "must be a Codec")
    return value
