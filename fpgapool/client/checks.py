# SPDX-License-Identifier: Apache-2.0

"""Check a caller's arguments before anything is sent."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

from fpgapool.client import errors
from fpgapool.client import typed
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import shapes

# Leaves room for the other members of HELLO.
_MAX_PARAMS_BYTES = frames.MAX_JSON_BYTES - 1024
# No name in the pool has more than 255 characters.
_NAME = shapes.matching("(?s:.){1,255}", "a name of 1 to 255 characters")
_T = TypeVar("_T")

#: Environment variable that says whether programs require TLS by default.
REQUIRE_TLS = "FPGAPOOL_REQUIRE_TLS"


def request(
    accelerator: object, size_bytes: object, **options: object
) -> dict[str, Any]:
    """Check the arguments of a request for a session.

    :raises errors.InvalidRequest: with the code of the first invalid argument.
    """
    if size_bytes == 0 and isinstance(size_bytes, int):
        raise errors.InvalidRequest(
            codes.INVALID_SIZE,
            "size_bytes must be at least 1; for empty input use run_buffer",
        )
    with refusing():
        return {
            "accelerator": name(accelerator, "accelerator"),
            "size_bytes": rules.check_size_bytes(size_bytes),
            **description.FIELDS.checked(options),
        }


def name(value: object, label: str) -> str:
    """Check the name of an accelerator, or the name or ID of a group.

    :raises errors.InvalidRequest: code ``INVALID_REQUEST``.
    """
    return argument(_NAME, value, label)


def argument(
    shape: shapes.Shape[_T],
    value: object,
    label: str,
    code: str = codes.INVALID_REQUEST,
) -> _T:
    """Check an argument.

    :raises errors.InvalidRequest: if the value does not have the shape.
    """
    # Not with refusing(): a generator is slow for small tasks.
    try:
        return shape(value, "")
    except shapes.Invalid as error:
        raise errors.InvalidRequest(code, f"{label} {error.reason}") from None


def size(
    size_bytes: object,
    name: str = "size_bytes",
    *,
    may_be_zero: bool = False,
) -> int:
    """Check a number of bytes.

    :param name: of the argument, for the error.
    :raises errors.InvalidRequest: code ``INVALID_SIZE``.
    """
    # Not with refusing(): a generator is slow for small tasks.
    try:
        return rules.check_size_bytes(
            size_bytes, name, may_be_zero=may_be_zero
        )
    except rules.RequestError as error:
        raise errors.InvalidRequest(error.code, error.message) from None


def seconds(value: object, name: str) -> float | None:
    """Check a duration.

    :raises errors.InvalidRequest: code ``INVALID_TIMEOUT``.
    """
    if value is None:
        return None
    # Not with refusing(): a generator is slow.
    try:
        return rules.check_timeout_s(value, name)
    except rules.RequestError as error:
        raise errors.InvalidRequest(error.code, error.message) from None


def deadline(timeout_s: object) -> float | None:
    """Return the deadline of a call; None if there is no time limit.

    :raises errors.InvalidRequest: code ``INVALID_TIMEOUT``.
    """
    return channel.deadline_after(seconds(timeout_s, "timeout_s"))


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Translate errors in requests to InvalidRequest."""
    try:
        yield
    except rules.RequestError as error:
        raise errors.InvalidRequest(error.code, error.message) from None


def require_tls(value: object) -> bool:
    """Return whether a caller requires TLS.

    :param value: the caller's argument; None to use the environment's value.
    :raises errors.InvalidRequest: code ``INVALID_REQUEST``.
    """
    if isinstance(value, bool):
        return value
    if value is not None:
        raise errors.invalid("require_tls must be True, False or None")
    text = os.environ.get(REQUIRE_TLS, "").lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("", "0", "false", "no", "off"):
        return False
    raise errors.invalid(f"{REQUIRE_TLS} must be true or false")


def params(value: object) -> dict[str, Any]:
    """Convert parameters to JSON values.

    :param value: mapping of names to values. Bytes become hexadecimal digits;
        NumPy scalars and arrays become numbers and lists.
    :raises errors.InvalidParams: if it is not a mapping with strings as names,
        or JSON cannot represent a value.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise errors.InvalidParams("params must be a mapping")
    if not all(isinstance(name, str) for name in value):
        raise errors.InvalidParams("the names of params must be strings")
    try:
        return {
            name: _json_value(item, f"params.{name}")
            for name, item in value.items()
        }
    except RecursionError:
        raise errors.InvalidParams("params are nested too deeply") from None


def encoded(values: Mapping[str, Any]) -> bytes:
    """Encode parameters for the worker.

    :raises errors.InvalidParams: if they are too large.
    """
    try:
        payload = frames.encode_json(values)
    except ValueError as exc:
        raise errors.InvalidParams(f"params cannot be sent: {exc}") from None
    if len(payload) > _MAX_PARAMS_BYTES:
        raise errors.InvalidParams(
            f"params cannot be sent: {len(payload)} bytes as JSON, larger "
            f"than the limit of {_MAX_PARAMS_BYTES}"
        )
    return payload


def _json_value(item: object, label: str) -> object:
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item).hex()
    # NumPy's scalars and arrays, without importing NumPy.
    if hasattr(item, "dtype") and hasattr(item, "tolist"):
        item = item.tolist()
    if isinstance(item, Mapping):
        return {
            str(name): _json_value(one, label) for name, one in item.items()
        }
    if isinstance(item, list | tuple):
        return [_json_value(one, label) for one in item]
    if isinstance(item, float) and not math.isfinite(item):
        raise errors.InvalidParams(
            f"{label}: not a finite number, so JSON cannot represent it"
        )
    if item is None or isinstance(item, bool | int | float | str):
        return item
    # The message omits the value: it may be a key.
    raise errors.InvalidParams(
        f"{label}: JSON cannot represent the type {type(item).__name__}"
    )


def params_schema(values: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Check parameters against the schema of their accelerator.

    :param values: the parameters; valid ones that are :class:`typed.Typed` are
        replaced by what they stand for.
    :raises errors.InvalidParams: if one is invalid; the message omits its
        value, which may be a key. Nothing has changed.
    """
    schema_check(schema)(values)


def schema_check(
    schema: Mapping[str, Any],
) -> Callable[[dict[str, Any]], None]:
    """Return a check like :func:`params_schema`, for repeated use."""

    def check(values: dict[str, Any]) -> None:
        meant = typed.fitted(values, schema, _has_plain_form, fault)
        found = {**values, **meant}
        if not _certainly_satisfies(found, schema):
            validate(found)
        values.update(meant)

    def fault(value: Any, part: Any) -> str | None:
        one = _first_error(validator().evolve(schema=part), value)
        return None if one is None else str(one.validator)

    @functools.cache
    def validator() -> Any:
        # Imported late: importing it takes longer than importing the client.
        import jsonschema  # type: ignore[import-untyped]

        return jsonschema.validators.validator_for(schema)(schema)

    def validate(values: dict[str, Any]) -> None:
        error = _first_error(validator(), values)
        if error is not None:
            raise errors.InvalidParams(_describe(error))

    return check


def _first_error(validator: Any, value: Any) -> Any:
    from jsonschema import exceptions

    return exceptions.best_match(validator.iter_errors(value))


def _certainly_satisfies(
    values: Mapping[str, Any], schema: Mapping[str, Any]
) -> bool:
    """Check parameters without jsonschema, whose import costs more than a run.

    :returns: False also if the schema or a value needs jsonschema.
    """
    properties = schema.get("properties", {})
    return (
        schema.keys() <= _PLAIN_ROOT
        and schema.get("type", "object") == "object"
        and schema.get("additionalProperties", True) in (True, False)
        and all(name in values for name in schema.get("required", ()))
        and all(
            name in properties and _has_plain_form(value, properties[name])
            for name, value in values.items()
        )
    )


# The arrays describe the data that a session sends, not its parameters.
_PLAIN_ROOT = {
    "type",
    "additionalProperties",
    "required",
    "properties",
    "arrays",
}
_PLAIN_TYPES = {"string": str, "integer": int, "boolean": bool}
_PLAIN_KEYWORDS: dict[str, Callable[[Any, Any], object]] = {
    "default": lambda value, default: True,
    "description": lambda value, text: True,
    "enum": lambda value, choices: isinstance(value, str) and value in choices,
    "maximum": lambda value, most: type(value) is int and value <= most,
    "minimum": lambda value, least: type(value) is int and value >= least,
    "pattern": lambda value, pattern: (
        isinstance(value, str) and re.search(pattern, value)
    ),
    # There may be a list of types.
    "type": lambda value, name: (
        isinstance(name, str) and type(value) is _PLAIN_TYPES.get(name)
    ),
}


def _has_plain_form(value: Any, schema: Any) -> bool:
    return isinstance(schema, dict) and all(
        keyword in _PLAIN_KEYWORDS and _PLAIN_KEYWORDS[keyword](value, wanted)
        for keyword, wanted in schema.items()
    )


def _describe(error: Any) -> str:
    path = ".".join(["params", *(str(step) for step in error.absolute_path)])
    if error.validator == "required":
        missing = [
            name
            for name in error.validator_value
            if name not in error.instance
        ]
        return f"{path}: missing: {', '.join(missing)}"
    if error.validator == "additionalProperties":
        known = sorted(error.schema.get("properties", {}))
        unknown = next(name for name in error.instance if name not in known)
        near = names.hint(unknown, known) or ";"
        return (
            f"{path}: unknown name {unknown[:80]!r}{near} known names:"
            f" {', '.join(known) or 'none'}"
        )
    if error.validator == "pattern" and "description" in error.schema:
        # Quote the description; the message must not show the value.
        return f"{path}: must be: {error.schema['description']}"
    describe = _RULES.get(error.validator)
    if describe is not None:
        return f"{path}: must be {describe(error.validator_value)}"
    return f"{path}: must satisfy {error.validator} {error.validator_value}"


_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


def _types(names: str | list[str]) -> str:
    found = [names] if isinstance(names, str) else names
    return " or ".join(_TYPES.get(name, name) for name in found)


_RULES: dict[str, Callable[[Any], str]] = {
    "enum": lambda choices: f"one of {', '.join(map(_json, choices))}",
    "maximum": lambda most: f"at most {most}",
    "minimum": lambda least: f"at least {least}",
    "type": _types,
}


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
