# SPDX-License-Identifier: Apache-2.0

"""Describes the accelerator that a program's partitions use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.spark import codecs
from fpgapool.vocabulary import shapes


class Accelerator:
    """An accelerator that computes the records of an RDD or DataFrame.

    Programs define a subclass, whose instances are sent to executors.

    :cvar id: the accelerator's name in the pool, for example ``fft``.
    :cvar codec: encodes records.
    :cvar results: decodes results; None: ``codec`` does.

    :param arguments: data for all records, such as a model, by number; see
        :func:`fpgapool.client.acc_open`.
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

        An accelerator that returns one result per block of records has a
        parameter with this name; for the others it is 1.
        """
        records: int = self.params.get("block_records", 1)
        return records

    @property
    def chunk_multiple_bytes(self) -> int:
        """The length of each piece of input is a multiple of this, in bytes.

        The default is the length of a record or block, if records have a fixed
        length; a subclass may return a multiple. The last piece is padded with
        zero bytes, unless the accelerator uses blocks, because the last block
        may be shorter.
        """
        return (self.codec.record_bytes or 1) * self.block_records

    def call(self, element: Any) -> Any:
        """Compute the result of one record on this machine's CPU.

        It is used if neither the pool nor a software core can compute a
        partition; without it, the partition fails. It returns one result per
        record, even if the accelerator returns one per block.

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

    :raises errors.InvalidRequest: if a member is missing or invalid.
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
