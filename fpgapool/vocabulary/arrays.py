# SPDX-License-Identifier: Apache-2.0

"""The types and shapes of the arrays that an accelerator takes and returns.

An accelerator's data is bytes. The keyword ``arrays`` in its
``params_schema`` says what they mean, so that programs can pass arrays::

    params_schema:
      type: object
      properties:
        frame_samples: {type: integer}
      arrays:
        input: {dtype: complex64, shape: [frame_samples]}
        output: {dtype: complex64, shape: [frame_samples]}

Input and output are sequences of items in C order, made of little-endian
numbers. Both have the members:

``dtype``
    NumPy's name for the type of the numbers, or the name of a parameter whose
    value is such a name.
``shape``
    Lengths of an item's dimensions; without it, an item is one number. A
    length is a number, the name of a parameter, or a sum of products of both,
    such as ``features + 1``.
``per``
    For the output only, a length, as above: how many items of input produce
    one item of output; the last item is produced from the rest. The default is
    1; ``any`` means that the numbers of items are unrelated.

A missing parameter takes the default in its schema. Validators ignore the
keyword, as JSON Schema requires for unknown keywords.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import re
import typing

from fpgapool.vocabulary import shapes

#: The keyword in the schema of parameters, and its members.
KEYWORD = "arrays"
INPUT = "input"
OUTPUT = "output"
#: The value of ``per`` for unrelated numbers of items.
ANY = "any"

DTYPES = (
    *("uint8", "uint16", "uint32", "uint64"),
    *("int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)

_MAX_DIMENSIONS = 16
_MAX_LENGTH = 1 << 40
_MAX_LENGTH_CHARS = 200
_FACTOR = re.compile(r"[A-Za-z_]\w{0,63}|[0-9]{1,12}", re.ASCII)

Schema: typing.TypeAlias = collections.abc.Mapping[str, typing.Any]
Params: typing.TypeAlias = collections.abc.Mapping[str, object]


@dataclasses.dataclass(frozen=True, slots=True)
class Items:
    """The items of input or output, for given parameters."""

    dtype: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of input and output, for given parameters.

    :ivar per: items of input for each item of output; None: not related.
    """

    input: Items
    output: Items
    per: int | None


class Form:
    """The arrays of an accelerator.

    :param schema: the schema of its parameters, with the keyword.
    :raises ValueError: if the keyword is missing or its value is invalid.
    """

    def __init__(self, schema: Schema) -> None:
        self._properties = shapes.mapping_of(shapes.anything)(
            schema.get("properties", {}), "properties"
        )
        if KEYWORD not in schema:
            raise ValueError(f"{KEYWORD} is missing")
        document = shapes.members(schema[KEYWORD], KEYWORD, (INPUT, OUTPUT))
        self._input = self._side(document[INPUT], f"{KEYWORD}.{INPUT}", ())
        self._output = self._side(
            document[OUTPUT], f"{KEYWORD}.{OUTPUT}", ("per",)
        )

    def _side(
        self, value: object, where: str, more: collections.abc.Collection[str]
    ) -> dict[str, typing.Any]:
        side = shapes.members(value, where, (), ("dtype", "shape", *more))
        dtype = side.get("dtype")
        if dtype not in DTYPES and not self._is_param(dtype):
            raise ValueError(
                f"{where}.dtype: must be a parameter or one of: "
                f"{', '.join(DTYPES)}"
            )
        shape = shapes.list_of(self._length_shape, 0, _MAX_DIMENSIONS)(
            side.get("shape", []), f"{where}.shape"
        )
        per = side.get("per", 1)
        if per != ANY:
            self._length_shape(per, f"{where}.per")
        return {"dtype": dtype, "shape": shape, "per": per}

    def _is_param(self, name: object) -> bool:
        return isinstance(name, str) and name in self._properties

    def _length_shape(self, length: object, where: str) -> int | str:
        if type(length) is int and 1 <= length <= _MAX_LENGTH:
            return length
        if (
            isinstance(length, str)
            and len(length) <= _MAX_LENGTH_CHARS
            and all(
                _FACTOR.fullmatch(factor)
                and (factor.isdigit() or self._is_param(factor))
                for term in _terms(length)
                for factor in term
            )
        ):
            return length
        raise shapes.Invalid(
            where,
            "must be a positive integer, a parameter, or a sum of products of"
            " such numbers and parameters",
        )

    @property
    def input_shape(self) -> tuple[int | str, ...]:
        """The shape of an item of input, as the accelerator declares it."""
        return tuple(self._input["shape"])

    def inferred(
        self, dtype: str, shape: collections.abc.Sequence[int]
    ) -> dict[str, typing.Any]:
        """Return the parameters that follow from an array.

        :returns: the parameters that name lengths of its last dimensions, and
            the one that names its type, if the accelerator accepts that type.
        """
        found: dict[str, typing.Any] = {}
        stated = self._input["shape"]
        if stated and len(shape) >= len(stated):
            for name, length in zip(
                stated, shape[-len(stated) :], strict=True
            ):
                if self._is_param(name):
                    found.setdefault(name, length)
        name = self._input["dtype"]
        if self._is_param(name):
            known = self._schema_of(name).get("enum", DTYPES)
            if isinstance(known, list | tuple) and dtype in known:
                found[name] = dtype
        return found

    def arrays(self, params: Params) -> Arrays:
        """Return the arrays of sessions with these parameters.

        :raises ValueError: if a parameter is missing or invalid.
        """
        per = self._output["per"]
        return Arrays(
            self._items(self._input, params),
            self._items(self._output, params),
            None if per == ANY else self._length(per, params),
        )

    def _items(self, side: Schema, params: Params) -> Items:
        dtype = side["dtype"]
        if self._is_param(dtype):
            dtype = self._value(dtype, params)
            if dtype not in DTYPES:
                raise ValueError(
                    f"the value of '{side['dtype']}' is not one of the types:"
                    f" {', '.join(DTYPES)}"
                )
        return Items(
            dtype,
            tuple(self._length(length, params) for length in side["shape"]),
        )

    def _length(self, length: int | str, params: Params) -> int:
        if isinstance(length, int):
            return length
        number = sum(
            math.prod(self._factor(factor, params) for factor in term)
            for term in _terms(length)
        )
        if number > _MAX_LENGTH:
            raise ValueError(f"'{length}' is larger than {_MAX_LENGTH}")
        return number

    def _factor(self, factor: str, params: Params) -> int:
        if factor.isdigit():
            return int(factor)
        value = self._value(factor, params)
        if type(value) is not int or not 0 <= value <= _MAX_LENGTH:
            raise ValueError(
                f"'{factor}' must be an integer from 0 to {_MAX_LENGTH}"
            )
        return value

    def _value(self, name: str, params: Params) -> object:
        if name in params:
            return params[name]
        schema = self._schema_of(name)
        if "default" not in schema:
            raise ValueError(f"'{name}' is missing")
        value: object = schema["default"]
        return value

    def _schema_of(self, name: str) -> Schema:
        schema = self._properties[name]
        # A schema may also be true or false.
        return schema if isinstance(schema, collections.abc.Mapping) else {}


def _terms(length: str) -> list[list[str]]:
    """Split a sum of products into its factors."""
    return [
        [factor.strip() for factor in term.split("*")]
        for term in length.split("+")
    ]
