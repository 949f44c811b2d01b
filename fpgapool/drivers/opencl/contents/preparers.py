# SPDX-License-Identifier: Apache-2.0

"""Constants for kernels that the host computes from a session's parameters.

A manifest can only name a preparer; it contains no code. A preparer checks all
its input, because the author of the manifest is untrusted.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing

import numpy

from fpgapool.accelerators import base as accelerators
from fpgapool.accelerators import parameters

Values: typing.TypeAlias = collections.abc.Mapping[str, typing.Any]

_KEY_BYTES = (16, 24, 32)
_MAX_FRAGMENTS = 32
_MAX_FRAME_SAMPLES = 1 << 17


@dataclasses.dataclass(frozen=True, slots=True)
class Preparer:
    """A computation that manifests can request.

    :ivar params: type of each parameter that it requires.
    :ivar compute: function that computes the contents of a buffer from their
        values; may raise InvalidParams.
    """

    params: collections.abc.Mapping[str, str]
    compute: collections.abc.Callable[[Values], bytes]


class _Field:
    """The finite field of 256 elements."""

    def __init__(self, modulus: int, generator: int) -> None:
        self._powers = [1]
        self._logarithms = {1: 0}
        for exponent in range(1, 255):
            element = _times(self._powers[-1], generator, modulus)
            self._powers.append(element)
            self._logarithms[element] = exponent

    def product(self, first: int, second: int) -> int:
        if not first or not second:
            return 0
        exponent = self._logarithms[first] + self._logarithms[second]
        return self._powers[exponent % 255]

    def inverse(self, element: int) -> int:
        return self._powers[-self._logarithms[element] % 255]


def _times(first: int, second: int, modulus: int) -> int:
    product = 0
    while second:
        if second & 1:
            product ^= first
        first <<= 1
        if first & 0x100:
            first ^= modulus
        second >>= 1
    return product


# -- AES: FIPS 197 ----------------------------------------------------------

_AES_FIELD = _Field(0x11B, 3)


def _substitution(element: int) -> int:
    inverse = _AES_FIELD.inverse(element) if element else 0
    turned = [
        (inverse << count | inverse >> (8 - count)) & 0xFF
        for count in range(5)
    ]
    return turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63


_SUBSTITUTIONS = [_substitution(element) for element in range(256)]
_INVERSE_SUBSTITUTIONS = [
    _SUBSTITUTIONS.index(element) for element in range(256)
]
_MIXING = (2, 1, 1, 3)
_INVERSE_MIXING = (14, 9, 13, 11)


def _mixed(element: int, factors: tuple[int, ...]) -> bytes:
    """Multiply an element by a column of MixColumns' matrix or its inverse."""
    return bytes(_AES_FIELD.product(element, factor) for factor in factors)


def _round_keys(key: bytes) -> list[bytes]:
    """Return the columns of the key schedule, four per round."""
    if len(key) not in _KEY_BYTES:
        raise accelerators.InvalidParams("'key' must be 16, 24 or 32 bytes")
    key_columns = len(key) // 4
    columns = [key[4 * i : 4 * i + 4] for i in range(key_columns)]
    constant = 1
    while len(columns) < 4 * (key_columns + 7):
        column = columns[-1]
        position = len(columns) % key_columns
        if position == 0:
            column = column[1:] + column[:1]
        if position == 0 or (key_columns == 8 and position == 4):
            column = bytes(_SUBSTITUTIONS[element] for element in column)
        if position == 0:
            column = bytes((column[0] ^ constant, *column[1:]))
            constant = _AES_FIELD.product(constant, 2)
        columns.append(_sum(column, columns[-key_columns]))
    return columns


def _sum(*columns: bytes) -> bytes:
    result = bytes(len(columns[0]))
    for column in columns:
        result = bytes(a ^ b for a, b in zip(result, column, strict=True))
    return result


def _table(
    substitutions: collections.abc.Sequence[int], factors: tuple[int, ...]
) -> bytes:
    return b"".join(_mixed(element, factors) for element in substitutions)


_ENCRYPTION = _table(_SUBSTITUTIONS, _MIXING)
_DECRYPTION = _table(_INVERSE_SUBSTITUTIONS, _INVERSE_MIXING) + bytes(
    _INVERSE_SUBSTITUTIONS
)


def _aes_encryption(values: Values) -> bytes:
    return _ENCRYPTION + b"".join(_round_keys(values["key"]))


def _aes_decryption(values: Values) -> bytes:
    columns = _round_keys(values["key"])
    # The keys of the equivalent inverse cipher.
    columns[4:-4] = [_unmixed(column) for column in columns[4:-4]]
    rounds = [columns[i : i + 4] for i in range(0, len(columns), 4)]
    return _DECRYPTION + b"".join(b"".join(keys) for keys in reversed(rounds))


def _unmixed(column: bytes) -> bytes:
    # Each column of the matrix is the previous one, rotated by one.
    products = [_mixed(element, _INVERSE_MIXING) for element in column]
    return _sum(
        *(
            product[-row:] + product[:-row]
            for row, product in enumerate(products)
        )
    )


# -- erasure coding ---------------------------------------------------------

_CODING_FIELD = _Field(0x11D, 2)
_Matrix: typing.TypeAlias = list[list[int]]


def _fragment_counts(values: Values) -> tuple[int, int]:
    k, m = values["k"], values["m"]
    if k < 1 or m < 1 or k + m > _MAX_FRAGMENTS:
        raise accelerators.InvalidParams(
            "'k' and 'm' must each be at least 1, and their sum at most "
            f"{_MAX_FRAGMENTS}"
        )
    return k, m


def _coding_row(index: int, k: int) -> list[int]:
    """Return the factors of the data fragments in one fragment."""
    if index < k:
        return [int(index == column) for column in range(k)]
    return [_CODING_FIELD.inverse(index ^ column) for column in range(k)]


def _inverted(matrix: _Matrix) -> _Matrix:
    """Invert an invertible matrix by Gauss-Jordan elimination."""
    size = len(matrix)
    rows = [
        [*row, *(int(index == column) for column in range(size))]
        for index, row in enumerate(matrix)
    ]
    product = _CODING_FIELD.product
    for column in range(size):
        pivot = next(i for i in range(column, size) if rows[i][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        factor = _CODING_FIELD.inverse(rows[column][column])
        rows[column] = [product(factor, value) for value in rows[column]]
        for index, row in enumerate(rows):
            if index != column and (factor := row[column]):
                rows[index] = [
                    value ^ product(factor, other)
                    for value, other in zip(row, rows[column], strict=True)
                ]
    return [row[size:] for row in rows]


def _ec_encoding(values: Values) -> bytes:
    k, m = _fragment_counts(values)
    return bytes(
        factor for index in range(k, k + m) for factor in _coding_row(index, k)
    )


def _ec_decoding(values: Values) -> bytes:
    k, m = _fragment_counts(values)
    missing = parameters.fragments(values["missing"], k, m)
    used = [index for index in range(k + m) if index not in missing][:k]
    matrix = _inverted([_coding_row(index, k) for index in used])
    return bytes(factor for row in matrix for factor in row)


# -- Fourier transforms -----------------------------------------------------


def _fft_plan(values: Values) -> bytes:
    """Return four rows of complex numbers for transforms of length M.

    M is the length of a frame, N, if this is a power of two. Otherwise the
    transform is computed as a circular convolution with a chirp (Bluestein's
    algorithm), and M is the smallest power of two that is at least 2 N - 1.

    The rows are: roots of unity; factors for the samples before the transform;
    the chirp's spectrum, with the factor 1 / M; factors for the result.
    """
    samples = parameters.integer(
        values, "frame_samples", 1, _MAX_FRAME_SAMPLES
    )
    sign = 1 if values["inverse"] else -1
    divides = {"backward": values["inverse"], "forward": not values["inverse"]}
    scale = samples**-0.5
    if values["norm"] != "ortho":
        scale = 1 / samples if divides.get(values["norm"]) else 1.0
    if samples & (samples - 1) == 0:
        plan = numpy.ones((4, samples), numpy.complex128)
        plan[0] = _roots(sign, samples)
        plan[3] = scale
    else:
        length = 1 << (2 * samples - 2).bit_length()
        plan = numpy.zeros((4, length), numpy.complex128)
        # exp(sign i pi n**2 / N), whose period is 2 N.
        squares = numpy.arange(samples, dtype=numpy.int64) ** 2
        chirp = numpy.exp(
            sign * 1j * numpy.pi / samples * (squares % (2 * samples))
        )
        kernel = numpy.zeros(length, numpy.complex128)
        kernel[:samples] = chirp.conj()
        kernel[length - samples + 1 :] = chirp[:0:-1].conj()
        plan[0] = _roots(-1, length)
        plan[1, :samples] = chirp
        plan[2] = numpy.fft.fft(kernel) / length
        plan[3, :samples] = chirp * scale
    return plan.astype("<c8").tobytes()


def _roots(sign: int, length: int) -> typing.Any:
    angles = 2 * numpy.pi / length * numpy.arange(length)
    return numpy.exp(sign * 1j * angles)


#: All preparers, by name. The contents that they compute are little-endian.
PREPARERS: collections.abc.Mapping[str, Preparer] = {
    "aes-encryption": Preparer({"key": "bytes"}, _aes_encryption),
    "aes-decryption": Preparer({"key": "bytes"}, _aes_decryption),
    "ec-encoding": Preparer({"k": "uint", "m": "uint"}, _ec_encoding),
    "ec-decoding": Preparer(
        {"k": "uint", "m": "uint", "missing": "uints"}, _ec_decoding
    ),
    "fft-plan": Preparer(
        {"frame_samples": "uint", "inverse": "flag", "norm": "choice"},
        _fft_plan,
    ),
}
