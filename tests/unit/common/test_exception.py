# SPDX-License-Identifier: Apache-2.0

import inspect

import pytest

from fpgapool.common import exception
from fpgapool.vocabulary import codes

EXCEPTIONS = [
    cls
    for _, cls in inspect.getmembers(exception, inspect.isclass)
    if issubclass(cls, exception.FpgapoolException)
]


@pytest.mark.parametrize("cls", EXCEPTIONS)
def test_codes_are_of_the_vocabulary(cls):
    assert cls.code == getattr(codes, cls.code)


def test_no_two_exceptions_share_a_code():
    assert len({cls.code for cls in EXCEPTIONS}) == len(EXCEPTIONS)


def test_fields_are_filled_in():
    error = exception.SessionNotFound(session_id="s1")
    assert str(error) == error.message == "Session s1 was not found."
    assert error.kwargs == {"session_id": "s1"}


def test_a_missing_field_is_a_mistake_of_the_caller():
    with pytest.raises(KeyError, match="session_id"):
        exception.SessionNotFound()


def test_message_and_code_can_be_replaced():
    error = exception.FpgapoolException(
        "Gone {fishing}.", code=codes.CLIENT_GONE
    )
    assert error.message == "Gone {fishing}."
    assert error.code == codes.CLIENT_GONE
    assert exception.FpgapoolException.code == codes.INTERNAL_ERROR


def test_an_unavailable_database_is_a_database_error():
    assert issubclass(exception.DatabaseUnavailable, exception.DatabaseError)


def test_a_code_of_its_own_crosses_rpc():
    """What oslo.messaging makes an exception of in another process."""
    sent = exception.BitstreamRefused("why", code=codes.BITSTREAM_IN_USE)
    made = type(sent)(*sent.args, **sent.kwargs)
    assert (made.code, made.message) == (codes.BITSTREAM_IN_USE, "why")
