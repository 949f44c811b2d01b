# SPDX-License-Identifier: Apache-2.0

"""Checks of queries and bodies against their schemas."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from typing import Any
from typing import NoReturn

import falcon
import jsonschema
from jsonschema import exceptions

from fpgapool.api.http import errors
from fpgapool.api.schemas import common
from fpgapool.vocabulary import codes

_MAX_DETAIL_LENGTH = 500
_MAX_ERRORS = 50

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class Checker:
    """Checks documents against a JSON Schema (2020-12)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._validator = jsonschema.Draft202012Validator(schema)
        self._may_be_empty = self._validator.is_valid({})

    def check(self, document: Any, where: str) -> None:
        """Make sure that a document is valid.

        :param where: name of the document, for the message.
        :raises ApiError: if it is invalid; the message names the place of the
            error.
        """
        errors_found = self._validator.iter_errors(document)
        # There may be as many errors as members, but only one is reported.
        error = exceptions.best_match(
            itertools.islice(errors_found, _MAX_ERRORS)
        )
        if error is not None:
            place = error.json_path.replace("$", where, 1)
            raise _invalid(f"{place}: {_message(error)}")

    def query(self, params: Mapping[str, str | list[str]]) -> dict[str, Any]:
        """Return a valid query, with values of the schema's types.

        :raises ApiError: if it is not valid.
        """
        if not params and self._may_be_empty:
            return {}
        properties = self._schema["properties"]
        for name, value in params.items():
            # Names never contain NUL characters, and PostgreSQL rejects them.
            if any("\0" in text for text in value):
                raise _invalid(f"query.{name}: contains a NUL character")
        found = {
            name: _typed(value, properties.get(name, {}).get("type"))
            for name, value in params.items()
        }
        self.check(found, "query")
        return found


def _message(error: exceptions.ValidationError) -> str:
    if error.validator != "pattern":
        return error.message
    words = common.WORDS[error.validator_value]
    return f"{error.instance!r:.80} is not {words}"


def _typed(value: str | list[str], type_: str | None) -> Any:
    """Return a value converted to a type; unchanged if that is impossible."""
    if type_ == "array":
        return [value] if isinstance(value, str) else value
    if isinstance(value, list):
        return value
    try:
        match type_:
            case "integer":
                return int(value) if len(value) < 20 else value
            case "number":
                number = float(value)
                return number if math.isfinite(number) else value
            case "boolean":
                return _TRUTH.get(value.lower(), value)
    except ValueError:
        return value
    return value


def read_body(req: falcon.Request, max_bytes: int) -> Any:
    """Return the document in a request's body.

    :raises ApiError: if it is too long, not complete, or not JSON.
    """
    length_bytes = req.content_length or 0
    if length_bytes > max_bytes:
        raise errors.ApiError(
            codes.BODY_TOO_LARGE,
            f"the body is larger than the limit of {max_bytes} bytes",
        )
    try:
        data = req.bounded_stream.read(length_bytes)
    except OSError as error:
        raise _invalid("body: not received in time") from error
    if len(data) < length_bytes:
        raise _invalid(
            f"body: only {len(data)} of {length_bytes} bytes were received"
        )
    content_type, _, _ = (req.content_type or "").partition(";")
    if content_type.strip().lower() != "application/json":
        raise errors.ApiError(
            codes.UNSUPPORTED_MEDIA_TYPE,
            "the body must be application/json",
        )
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"body: not JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _invalid(text: str) -> errors.ApiError:
    if len(text) > _MAX_DETAIL_LENGTH:
        text = f"{text[:_MAX_DETAIL_LENGTH]}…"
    return errors.ApiError(codes.INVALID_REQUEST, text)
