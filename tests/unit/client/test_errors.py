# SPDX-License-Identifier: Apache-2.0

"""What errors keep, and what copies of them do not."""

from __future__ import annotations

import copyreg
import typing

import pytest

from fpgapool.client import errors
from fpgapool.vocabulary import codes


def _rebuild(
    cls: type[BaseException], args: tuple[typing.Any, ...], kept: typing.Any
) -> BaseException:
    made = cls(*args)
    made.__traceback__, made.__cause__, made.__context__ = kept
    return made


def _fail() -> None:
    try:
        raise OSError("gone")
    except OSError as exc:
        raise errors.SessionFailed(codes.CORE_FAILED, "no", 7) from exc


@pytest.fixture
def whole_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies have all of an error, as libraries want that pickle errors."""
    monkeypatch.setitem(
        copyreg.dispatch_table,
        errors.SessionFailed,
        lambda one: (
            _rebuild,
            (
                type(one),
                (one.code, one.message, 7),
                (one.__traceback__, one.__cause__, one.__context__),
            ),
        ),
    )


@pytest.mark.usefixtures("whole_copies")
def test_an_error_that_is_raised_again_has_no_memory_of_the_first() -> None:
    with pytest.raises(errors.SessionFailed) as first:
        _fail()
    again = first.value.again()
    assert again is not first.value
    assert (again.code, again.message) == (codes.CORE_FAILED, "no")
    assert again.__traceback__ is None
    assert again.__cause__ is None
    assert again.__context__ is None
    assert not again.__suppress_context__
