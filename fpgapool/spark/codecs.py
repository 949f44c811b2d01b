# SPDX-License-Identifier: Apache-2.0

"""Convert Python objects to bytes for an accelerator, and back."""

from __future__ import annotations

import abc
import math
import mmap
import struct
import typing
from typing import Any

import numpy

Buffer: typing.TypeAlias = bytes | bytearray | memoryview | mmap.mmap

_LENGTH = struct.Struct("<I")


class Codec(abc.ABC):
    """Encodes the records of an accelerator's input, or decodes results.

    Executors import its class, so it must be in a module that is installed
    there. A codec keeps the order of records.
    """

    #: Length of each record; None if the lengths differ.
    record_bytes: int | None = None

    @abc.abstractmethod
    def encode(self, records: list[Any]) -> Buffer:
        """Return records as bytes.

        A partition takes several calls, whose results are concatenated.

        :param records: at least one record.
        :raises ValueError: if a record cannot be encoded.
        """

    @abc.abstractmethod
    def decode(self, buffer: Buffer, count: int) -> list[Any]:
        """Return the records in a buffer.

        :param buffer: the whole output for a partition; zero bytes or the
            results of padding may follow.
        :raises ValueError: if there are fewer records than ``count``.
        """


class ArrayCodec(Codec):
    """Records are numbers, or arrays of the same shape.

    :param dtype: NumPy's name for the type of the numbers, including the byte
        order, for example ``<f4``.
    :param shape: shape of a record; empty for a single number.
    """

    record_bytes: int

    def __init__(self, dtype: str, *shape: int) -> None:
        self._dtype = numpy.dtype(dtype)
        self._shape = shape
        self._numbers = math.prod(shape)
        self.record_bytes = self._numbers * self._dtype.itemsize
        if self._dtype.hasobject:
            raise ValueError(
                f"type {dtype!r} contains Python objects, which cannot be sent"
            )

    def encode(self, records: list[Any]) -> Buffer:
        """See :meth:`Codec.encode`.

        :raises ValueError: if a record has a different shape, or a number does
            not fit the type.
        """
        given = numpy.asarray(records)
        if given.shape != (len(records), *self._shape):
            raise ValueError(
                f"records must have shape {self._shape}, not {given.shape[1:]}"
            )
        if not numpy.can_cast(given.dtype, self._dtype, "same_kind") and not (
            # NumPy gives Python integers a signed type, even if none is
            # negative.
            given.dtype.kind == "i" and self._dtype.kind == "u"
        ):
            raise ValueError(
                f"records must be of type {self._dtype}, not {given.dtype}"
            )
        encoded = numpy.ascontiguousarray(given, self._dtype)
        if given.dtype.kind in "iu" and not numpy.array_equal(encoded, given):
            raise ValueError(
                f"a number is out of range for type {self._dtype}"
            )
        return encoded.data

    def decode(self, buffer: Buffer, count: int) -> list[Any]:
        """See :meth:`Codec.decode`.

        :returns: NumPy numbers or arrays, which may be views of the buffer.
        """
        found_bytes = memoryview(buffer).nbytes
        if found_bytes < count * self.record_bytes:
            raise ValueError(
                f"{found_bytes} bytes are too few for {count} records of "
                f"{self.record_bytes} bytes"
            )
        numbers = numpy.frombuffer(buffer, self._dtype, count * self._numbers)
        return list(numbers.reshape(count, *self._shape))


class BytesCodec(Codec):
    """Records are bytes of any length.

    A record is sent after its length, four bytes with the least significant
    first.
    """

    def encode(self, records: list[Any]) -> Buffer:
        parts = []
        for record in records:
            view = memoryview(record)
            try:
                parts += [_LENGTH.pack(view.nbytes), view]
            except struct.error:
                raise ValueError(
                    f"a record of {view.nbytes} bytes is too long; the limit"
                    f" is {2**32 - 1}"
                ) from None
        return b"".join(parts)

    def decode(self, buffer: Buffer, count: int) -> list[Any]:
        """See :meth:`Codec.decode`.

        :returns: ``bytes``.
        """
        view = memoryview(buffer).cast("B")
        records = []
        start = 0
        for number in range(count):
            data = start + _LENGTH.size
            if data <= len(view):
                (length_bytes,) = _LENGTH.unpack_from(view, start)
                start = data + length_bytes
            if max(data, start) > len(view):
                raise ValueError(
                    f"the data ends within record {number} of {count}"
                )
            records.append(bytes(view[data:start]))
        return records
