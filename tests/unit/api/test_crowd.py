# SPDX-License-Identifier: Apache-2.0

"""Places that projects share."""

import contextlib

import pytest

from fpgapool.api.http import crowd
from fpgapool.api.http import errors
from fpgapool.vocabulary import codes


def test_a_project_has_no_more_places_than_its_share() -> None:
    made = crowd.Crowd("uploads", codes.TOO_MANY_UPLOADS, 2)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(made.place("p"))
        with pytest.raises(
            errors.ApiError, match="from this project"
        ) as caught:
            stack.enter_context(made.place("p"))
        assert caught.value.code == codes.TOO_MANY_UPLOADS
        with made.place("other"):
            pass
    with made.place("p"):
        pass


def test_there_are_no_more_places_than_there_are() -> None:
    made = crowd.Crowd("uploads", codes.TOO_MANY_UPLOADS, 2, 3)
    with made.place("a"), made.place("b"), made.place("c"):
        with pytest.raises(errors.ApiError, match="too many uploads;"):
            made.place("d").__enter__()
    # Whoever has none is not remembered.
    assert not made._taken


def test_a_place_is_given_back_after_an_error() -> None:
    made = crowd.Crowd("uploads", codes.TOO_MANY_UPLOADS, 1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), made.place("p"):
            raise ZeroDivisionError
