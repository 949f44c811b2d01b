# SPDX-License-Identifier: Apache-2.0

"""What a program says about an accelerator that its partitions use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import NoReturn

from fpgapool.client import errors
from fpgapool.spark import codecs
from fpgapool.vocabulary import codes


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

        It is the parameter of this name, as accelerators have it that return
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


def check(accelerator: Accelerator) -> Accelerator:
    """Refuse an accelerator before any executor works with it.

    :raises errors.InvalidRequest: if it has no name, no codec, or wrong
        numbers.
    """

    def refuse(reason: str) -> NoReturn:
        raise errors.InvalidRequest(codes.INVALID_REQUEST, reason)

    if not isinstance(accelerator, Accelerator):
        refuse(f"{accelerator!r} must be an instance of Accelerator")
    label = type(accelerator).__name__
    name = getattr(accelerator, "id", None)
    if not isinstance(name, str) or not name:
        refuse(f"{label}.id must be the name of an accelerator")
    for member in ("codec", "results"):
        codec = getattr(accelerator, member, None)
        if member == "results" and codec is None:
            continue
        if not isinstance(codec, codecs.Codec):
            refuse(f"{label}.{member} must be a Codec")
    for member in ("chunk_multiple_bytes", "block_records"):
        value = getattr(accelerator, member)
        if not isinstance(value, int) or value < 1:
            refuse(f"{label}.{member} must be an integer of at least 1")
    return accelerator
