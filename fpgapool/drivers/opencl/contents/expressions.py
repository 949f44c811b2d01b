# SPDX-License-Identifier: Apache-2.0

"""Expressions in a manifest: integers, names and five operators.

::

    sum    = term {("+" | "-") term}
    term   = factor {("*" | "/" | "%") factor}
    factor = number | name | ("min" | "max") "(" sum "," sum ")" | "(" sum ")"

Division rounds down. No value may exceed 2**63 - 1 in magnitude.
"""

from __future__ import annotations

import collections.abc
import operator
import re

from fpgapool.vocabulary import shapes

MAX_CHARS = 200
#: Depth of nested parentheses.
MAX_DEPTH = 16
FUNCTIONS = ("min", "max")

_MAX_VALUE = 2**63 - 1
_TOKEN = re.compile(
    r"\s*(?:([0-9]{1,19})|([a-z][a-z0-9_]{0,63})|([-+*/%(),]))"
)
_OPERATIONS: dict[str, collections.abc.Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}


class Expression:
    """A parsed expression; ValueError if the source is invalid."""

    def __init__(self, source: object) -> None:
        if not (isinstance(source, str) or shapes.is_integer(source)):
            raise ValueError("must be an integer or an expression")
        parser = _Parser(str(source))
        parser.parse()
        # In postfix order.
        self._program = tuple(parser.program)
        self.names = frozenset(
            item[1] for item in self._program if item[0] == "name"
        )

    def value(self, variables: collections.abc.Mapping[str, int]) -> int:
        """Compute the value.

        :raises ValueError: if an intermediate value is too large, or a
            divisor is 0.
        """
        stack: list[int] = []
        for kind, item in self._program:
            if kind == "number":
                result = int(item)
            elif kind == "name":
                result = variables[item]
            else:
                second = stack.pop()
                first = stack.pop()
                if not second and item in "/%":
                    raise ValueError("divides by 0")
                result = _OPERATIONS[item](first, second)
            if abs(result) > _MAX_VALUE:
                raise ValueError("a value exceeds 2**63 - 1 in magnitude")
            stack.append(result)
        return stack.pop()


class _Parser:
    """Reads an expression by recursive descent.

    :ivar program: the expression in postfix order.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARS:
            raise ValueError(f"must be at most {MAX_CHARS} characters")
        self.program: list[tuple[str, str]] = []
        self._tokens = _tokens(text)
        self._position = 0
        self._depth = 0

    def parse(self) -> None:
        self._sum()
        if self._next()[0] != "end":
            raise _unexpected(self._next())

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._position]

    def _take(self, *expected: str) -> str | None:
        """Consume the next token if it is one of these signs."""
        kind, text = self._next()
        if kind == "sign" and text in expected:
            self._position += 1
            return text
        return None

    def _require(self, sign: str) -> None:
        if not self._take(sign):
            raise _unexpected(self._next())

    def _sum(self) -> None:
        self._term()
        while sign := self._take("+", "-"):
            self._term()
            self.program.append(("operation", sign))

    def _term(self) -> None:
        self._factor()
        while sign := self._take("*", "/", "%"):
            self._factor()
            self.program.append(("operation", sign))

    def _factor(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"must be nested at most {MAX_DEPTH} levels deep")
        kind, text = self._next()
        if kind == "name" and text in FUNCTIONS:
            self._position += 1
            self._require("(")
            self._sum()
            self._require(",")
            self._sum()
            self._require(")")
            self.program.append(("operation", text))
        elif kind in ("number", "name"):
            self._position += 1
            self.program.append((kind, text))
        else:
            self._require("(")
            self._sum()
            self._require(")")
        self._depth -= 1


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(
                f"unexpected {text[position]!r} at position {position}"
            )
        number, name, sign = match.groups()
        if number:
            found.append(("number", number))
        elif name:
            found.append(("name", name))
        else:
            found.append(("sign", sign))
        position = match.end()
    return [*found, ("end", "the end")]


def _unexpected(token: tuple[str, str]) -> ValueError:
    return ValueError(f"unexpected {token[1]!r}")
