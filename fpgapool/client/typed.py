# SPDX-License-Identifier: Apache-2.0

"""Parameters as people type them, converted by the accelerator's schema."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

#: Whether a value obviously satisfies a schema; False if that needs a closer
#: look.
IsPlain = Callable[[Any, Any], bool]
#: Returns the keyword of the schema that a value violates; None if none.
Fault = Callable[[Any, Any], str | None]

# Violated if the kind of value is wrong, not its size or form.
_KINDS = ("type", "enum", "const", "anyOf", "oneOf")
# Keywords of a schema that combine other schemas.
_COMBINED = ("allOf", "anyOf", "oneOf")
_WORDS = ("true", "false", "null")


class Typed(str):
    """A text that stands for what the accelerator's schema asks for.

    ``4`` is a number where the schema wants one, and a text elsewhere.
    """

    __slots__ = ()


def fitted(
    values: Mapping[str, Any],
    schema: Mapping[str, Any],
    is_plain: IsPlain,
    fault: Fault,
) -> dict[str, Any]:
    """Return the values of the typed parameters, converted.

    A text that nothing in the schema fits is converted to what comes closest,
    so that the error of the schema's check names the rule that it violates.
    """
    return {
        name: _fitted(text, _schema_of(name, schema), is_plain, fault)
        for name, text in values.items()
        if isinstance(text, Typed)
    }


def _schema_of(name: str, schema: Any) -> Any:
    """Return the schema of a parameter; {} if none is declared."""
    if not isinstance(schema, Mapping):
        return {}
    own = schema.get("properties", {}).get(name)
    found = [] if own is None else [own]
    for keyword in _COMBINED:
        for part in schema.get(keyword, ()):
            if one := _schema_of(name, part):
                found.append(one)
    if len(found) == 1:
        return found[0]
    return {"anyOf": found} if found else {}


def _fitted(text: Typed, schema: Any, is_plain: IsPlain, fault: Fault) -> Any:
    readings = list(_readings(str(text)))
    for value in readings:
        if is_plain(value, schema):
            return value
    closest: Any = None
    for value in readings:
        keyword = fault(value, schema)
        if keyword is None:
            return value
        if closest is None or closest[0] in _KINDS:
            closest = keyword, value
    return closest[1]


def _readings(text: str) -> Iterator[Any]:
    """Yield what a text may mean, the most literal reading first."""
    yield text
    found, value = _parsed(text)
    if found:
        yield value
    if text[:1] not in ("[", "{"):
        parts = text.split(",")
        yield [_scalar(part) for part in parts]
        yield parts


def _scalar(text: str) -> Any:
    found, value = _parsed(text)
    return value if found else text


def _parsed(text: str) -> tuple[bool, Any]:
    """Return whether a text is JSON, and its value."""
    word = text.strip().lower()
    try:
        value = json.loads(
            word if word in _WORDS else text, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return False, None
    if isinstance(value, float) and not math.isfinite(value):
        return False, None
    return True, value


def _refuse(name: str) -> None:
    raise ValueError(name)
