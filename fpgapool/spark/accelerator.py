# SPDX-License-Identifier: Apache-2.0

"""A program's description of the accelerator that its partitions use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.spark import codecs
from fpgapool.vocabulary import shapes


class Accelerator:
    """An accelerator of the pool, for the records of an RDD or DataFrame.

    Programs define a subclass, and send its instances to executors.

    :cvar id: the accelerator's name in the pool, for example ``fft``.
    :cvar codec: encodes records.
    :cvar results: decodes results; None means that ``codec`` does.

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
        """The number of records per result.

        This is the parameter of this name, if the accelerator has it because
        it returns one result per block of records; otherwise 1.
        """
        records: int = self.params.get("block_records", 1)
        return records

    @property
    def chunk_multiple_bytes(self) -> int:
        """The length of all pieces of input is a multiple of this.

        The default is the length of a record or block, if records have a fixed
        length; a subclass may use a longer one. Zero bytes are added to the
        last piece, except with blocks, of which the last may be short.
        """
        return (self.codec.record_bytes or 1) * self.block_records

    def call(self, element: Any) -> Any:
        """Return the result of one record, computed by this machine's CPU.

        It is used if neither the pool nor a software core on this machine can
        compute; without this method, such a partition fails. It returns one
        result per record, even if the accelerator returns one per block.

        :param element: the record, as decoded by ``codec``.
        """
        raise NotImplementedError

    @property
    def has_call(self) -> bool:
        """Whether the program has defined :meth:`call`."""
        return type(self).call is not Accelerator.call


_NAME = shapes.text(least=1)
_COUNT = shapes.integer(1)


def check(accelerator: Accelerator) -> Accelerator:
    """Check an accelerator before any executor uses it.

    :raises errors.InvalidRequest: if the name or codec is missing, or a number
        is invalid.
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
