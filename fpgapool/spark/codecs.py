# SPDX-License-Identifier: Apache-2.0

"""How Python objects become the bytes of an accelerator, and back."""

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

    Executors import its class, so it belongs into a module that is installed
    there. The order of records is kept.
    """

    #: Length of each record; None: they differ.
    record_bytes: int | None = None

    @abc.abstractmethod
    def encode(self, records: list[Any]) -> Buffer:
        """Return the bytes of records.

        A partition is encoded in several calls; their results are joined.

        :param records: one at least.
        :raises ValueError: if one of them cannot be encoded.
        """

    @abc.abstractmethod
    def decode(self, buffer: Buffer, count: int) -> list[Any]:
        """Return the records that bytes stand for.

        :param buffer: the whole output for a partition; zero bytes or the
            results of padding may follow.
        :raises ValueError: if there are fewer.
        """


class ArrayCodec(Codec):
    """Records are numbers, or arrays of the same shape.

    :param dtype: type of the numbers, as NumPy writes it; name the order of
        bytes, for example ``<f4``.
    :param shape: of a record; none for a single number.
    """

    record_bytes: int

    def __init__(self, dtype: str, *shape: int) -> None:
        self._dtype = numpy.dtype(dtype)
        self._shape = shape
        self._numbers = math.prod(shape)
        self.record_bytes = self._numbers * self._dtype.itemsize
        if self._dtype.hasobject:
            raise ValueError(
                f"the type {dtype!r} holds Python objects, which have no bytes"
            )

    def encode(self, records: list[Any]) -> Buffer:
        """See :meth:`Codec.encode`.

        :raises ValueError: if a record has another shape, or a number does not
            fit the type.
        """
        given = numpy.asarray(records)
        if given.shape != (len(records), *self._shape):
            raise ValueError(
                f"records must have the shape {self._shape}, "
                f"not {given.shape[1:]}"
            )
        if not numpy.can_cast(given.dtype, self._dtype, "same_kind") and not (
            # Python's integers are signed.
            given.dtype.kind == "i" and self._dtype.kind == "u"
        ):
            raise ValueError(
                f"records must be of the type {self._dtype}, not {given.dtype}"
            )
        encoded = numpy.ascontiguousarray(given, self._dtype)
        if given.dtype.kind in "iu" and not numpy.array_equal(encoded, given):
            raise ValueError(
                f"a number is out of range for the type {self._dtype}"
            )
        return encoded.data

    def decode(self, buffer: Buffer, count: int) -> list[Any]:
        """See :meth:`Codec.decode`.

        :returns: NumPy's numbers or arrays, which may be views of the buffer.
        """
        found_bytes = memoryview(buffer).nbytes
        if found_bytes < count * self.record_bytes:
            raise ValueError(
                f"{count} records of {self.record_bytes} bytes cannot be in "
                f"{found_bytes} bytes"
            )
        numbers = numpy.frombuffer(buffer, self._dtype, count * self._numbers)
        return list(numbers.reshape(count, *self._shape))


class BytesCodec(Codec):
    """Records are bytes of any length.

    On the wire the length of each comes first, as four bytes, the lowest one
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
                    f"a record of {view.nbytes} bytes is too long"
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
