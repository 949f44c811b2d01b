# SPDX-License-Identifier: Apache-2.0

"""Errors get from one process to another as they are."""

from __future__ import annotations

import collections.abc
import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import string
import typing
from collections.abc import Iterator

import pytest

import fpgapool
from fpgapool import client
from fpgapool.client import errors
from fpgapool.client.doors import view as views
from fpgapool.common import exception

TIMEOUT_S = 30.0

#: Modules that do something when they are imported.
_SCRIPTS = ("fpgapool.db.migrations", "fpgapool.wsgi")

_VALUES: dict[object, object] = {
    bool: True,
    int: 7,
    str: "a text",
    str | None: "a text",
    float | None: 7.5,
    collections.abc.Mapping[str, str] | None: {"name": "value"},
    collections.abc.Iterable[errors.Place]: (
        errors.Place("/a/socket", "is not a socket", notable=True),
    ),
    collections.abc.Mapping[int, BaseException]: {},
    errors.FpgapoolError: errors.FpgapoolError("CODE", "a text"),
    views.SessionView: views.SessionView.from_message(
        {"session_id": "s", "state": "FAILED", "reason": "WORKER_DIED"}
    ),
}


def _classes() -> list[type[Exception]]:
    """Find all classes of errors in the product."""
    for module in pkgutil.walk_packages(fpgapool.__path__, "fpgapool."):
        if not module.name.startswith(_SCRIPTS):
            importlib.import_module(module.name)
    found = {
        one
        for one in _subclasses(Exception)
        if one.__module__.startswith("fpgapool.")
        # Those with a cause are made when they are raised, and have their
        # own test.
        and vars(one).get("_called") is None
    }
    return sorted(found, key=lambda one: (one.__module__, one.__qualname__))


def _subclasses(parent: type) -> Iterator[type]:
    for one in parent.__subclasses__():
        yield one
        yield from _subclasses(one)


def _make(kind: type[Exception]) -> Exception:
    if issubclass(kind, exception.FpgapoolException):
        fields = string.Formatter().parse(kind.msg_fmt)
        values = {name: "a value" for _, name, _, _ in fields if name}
        return kind(code="ANOTHER_CODE", **values)
    if isinstance(kind.__init__, type(Exception.__init__)):
        return kind("a text")
    hints = typing.get_type_hints(kind.__init__)
    positional, named = [], {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = _VALUES[hints[name]]
        else:
            positional.append(_VALUES[hints[name]])
    return kind(*positional, **named)


@pytest.mark.parametrize(
    "kind", _classes(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}"
)
def test_all_errors_are_pickled_and_copied(kind: type[Exception]) -> None:
    error = _make(kind)
    error.add_note("a note")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        _compare(error, pickle.loads(pickle.dumps(error, protocol)))
    _compare(error, copy.copy(error))
    _compare(error, copy.deepcopy(error))


def _compare(error: Exception, other: Exception) -> None:
    assert type(other) is type(error)
    assert (str(other), other.args) == (str(error), error.args)
    # Errors in it are equal to themselves only.
    assert repr(vars(other)) == repr(vars(error))


def test_a_pool_of_processes_gets_the_error() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply_async(client.acc_open, ("copy", 0))
        with pytest.raises(errors.InvalidRequest) as caught:
            result.get(TIMEOUT_S)
    assert caught.value.code == "INVALID_SIZE"
