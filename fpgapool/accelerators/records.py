# SPDX-License-Identifier: Apache-2.0

"""Records of numbers in blocks, with one result for each block.

A learning step is a sum over all records, so each block of records is computed
independently, and the client's program adds up the results.
"""

from __future__ import annotations

import abc
import collections.abc
import typing

import numpy
import numpy.typing

from fpgapool.accelerators import base
from fpgapool.accelerators import parameters

#: Type of numbers in records and arguments, little-endian.
NUMBER_TYPE = numpy.dtype("<f4")
RESULT_TYPE = numpy.dtype("<f8")
MAX_FEATURES = 1 << 16
#: Maximum number of labels or centres.
MAX_ROWS = 1 << 10
MAX_BLOCK_RECORDS = 1 << 16
DEFAULT_BLOCK_RECORDS = 256
#: A block must fit in one piece of input.
MAX_BLOCK_BYTES = 1 << 22
#: Maximum bytes of result per byte of a block; limits the output of a piece.
MAX_RESULT_RATIO = 4

# Maximum numbers in a matrix that is computed at once: a few megabytes.
_BATCH_NUMBERS = 1 << 18

Matrix: typing.TypeAlias = numpy.typing.NDArray[numpy.float64]


class BlockCore(base.Core):
    """Returns one result for each block of records, stateless.

    Argument 1 is a matrix of single precision numbers, row by row, with one
    column per feature.

    :param params: ``features``: features in a record; ``block_records``:
        records in each block but the last, 256 by default; and the number of
        rows of the matrix, under a name that the subclass chooses.
    """

    #: Name of the parameter that sets the number of rows of the matrix.
    rows_name: typing.ClassVar[str]
    #: Default of that parameter; None: it is required.
    default_rows: typing.ClassVar[int | None] = None
    #: Name of the matrix in error messages.
    matrix_name: typing.ClassVar[str]
    #: How many numbers precede the features in a record.
    labels_of_record: typing.ClassVar[int] = 0

    rounding = ("<f8", 1e-12)

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        required = ["features"]
        defaults = {"block_records": DEFAULT_BLOCK_RECORDS}
        if self.default_rows is None:
            required.append(self.rows_name)
        else:
            defaults[self.rows_name] = self.default_rows
        values = parameters.checked(params, required, defaults)
        self.features = parameters.integer(values, "features", 1, MAX_FEATURES)
        self.rows = parameters.integer(values, self.rows_name, 1, MAX_ROWS)
        self._block_records = parameters.integer(
            values, "block_records", 1, MAX_BLOCK_RECORDS
        )
        self._columns = self.labels_of_record + self.features
        self._refuse_sizes()
        self._batch_records = max(
            1, _BATCH_NUMBERS // max(self._columns, self.rows)
        )
        self._matrix: Matrix | None = None
        self._cancelled = False

    def _refuse_sizes(self) -> None:
        record_bytes = self._record_bytes
        least = -(-self._result_bytes // (MAX_RESULT_RATIO * record_bytes))
        most = min(MAX_BLOCK_RECORDS, MAX_BLOCK_BYTES // record_bytes)
        if least > most:
            raise base.InvalidParams(
                f"'features' times '{self.rows_name}' is too large"
            )
        if not least <= self._block_records <= most:
            raise base.InvalidParams(
                f"with these 'features' and '{self.rows_name}', "
                f"'block_records' must be from {least} to {most}"
            )

    @property
    def _record_bytes(self) -> int:
        return self._columns * NUMBER_TYPE.itemsize

    @property
    def _result_bytes(self) -> int:
        return self.result_numbers * RESULT_TYPE.itemsize

    @property
    def chunk_multiple_bytes(self) -> int:
        """Length of a block."""
        return self._block_records * self._record_bytes

    @property
    @abc.abstractmethod
    def result_numbers(self) -> int:
        """How many numbers a result contains."""

    @abc.abstractmethod
    def add(self, batch: Matrix, matrix: Matrix, result: Matrix) -> None:
        """Add the contribution of some of a block's records to its result.

        :param result: the block's result, initially zeros.
        :raises InvalidInput: if a record is invalid.
        """

    def set_argument(self, number: int, data: memoryview) -> None:
        if number != 1:
            super().set_argument(number, data)
        expected_bytes = self.rows * self.features * NUMBER_TYPE.itemsize
        if data.nbytes != expected_bytes:
            raise base.InvalidArgument(
                f"argument 1, the {self.matrix_name}, is {data.nbytes} bytes; "
                f"expected {expected_bytes} bytes for {self.rows} "
                f"'{self.rows_name}' and {self.features} 'features'"
            )
        numbers = numpy.frombuffer(data, NUMBER_TYPE).astype(numpy.float64)
        self._matrix = numbers.reshape(self.rows, self.features)

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        if self._matrix is None:
            raise base.InvalidArgument(
                f"argument 1, the {self.matrix_name}, is missing"
            )
        base.require_whole(len(chunk_in), self._record_bytes, "record")
        records = numpy.frombuffer(chunk_in, NUMBER_TYPE).reshape(
            -1, self._columns
        )
        output_bytes = self.max_output_bytes(len(chunk_in))
        results = numpy.frombuffer(chunk_out[:output_bytes], RESULT_TYPE)
        starts = range(0, len(records), self._block_records)
        # Overflows and invalid operations are not errors: they appear in
        # results as infinity or NaN.
        with numpy.errstate(all="ignore"):
            for start, result in zip(
                starts, results.reshape(len(starts), -1), strict=True
            ):
                block = records[start : start + self._block_records]
                result[:] = self._result(block, self._matrix)
                if self._cancelled:
                    return 0
        return output_bytes

    def _result(
        self, block: numpy.typing.NDArray[numpy.float32], matrix: Matrix
    ) -> Matrix:
        result = numpy.zeros(self.result_numbers)
        for start in range(0, len(block), self._batch_records):
            batch = block[start : start + self._batch_records]
            self.add(batch.astype(numpy.float64), matrix, result)
            if self._cancelled:
                break
        return result

    def max_output_bytes(self, input_bytes: int) -> int:
        blocks = -(-input_bytes // self.chunk_multiple_bytes)
        return blocks * self._result_bytes

    def cancel(self) -> None:
        self._cancelled = True
