# SPDX-License-Identifier: Apache-2.0

"""What errors keep, and what copies of them do not."""

from __future__ import annotations

import copyreg
import pickle
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


def _set(*names: str) -> frozenset[str]:
    return frozenset(" ".join(names).split())


#: Codes whose errors have a class of their own in any case.
OWN = _set(
    "CANCELLED CANCELLED_BY_CLIENT CHECKSUM_MISMATCH FRONT_DOOR_UNAVAILABLE",
    "INVALID_PARAMS SESSION_CLOSED TIMEOUT TOO_MANY_OPEN_FILES WAIT_TIMEOUT",
)
#: What a program cannot get, or can do nothing about but tell people: the
#: classes for these are InvalidRequest, RequestRejected, SessionFailed and
#: TaskFailed, by when they happen.
GROUPED = {
    "not an error": _set("OK"),
    "a mistake in the program": _set(
        "INVALID_REQUEST INVALID_REQUEST_ID REQUEST_ID_REUSED UNKNOWN_HOST",
        "INVALID_TIMEOUT ACCELERATOR_NOT_STATELESS GROUP_NOT_SHARED",
        "INVALID_SET",
        "CHAIN_LENGTH CHAIN_NO_OUTPUT CHAIN_OPTION CHAIN_PARAMS",
    ),
    "releases that do not fit": _set(
        "UNKNOWN_OPERATION DRY_RUN_UNSUPPORTED PROTOCOL_ERROR BAD_OFFSET",
        "STREAM_LIMIT FRAME_TOO_LARGE HELLO_TIMEOUT CREDIT_EXCEEDED",
        "CHECKSUM_UNAVAILABLE BLOCK_DAMAGED INVALID_CHECKPOINT",
        "CHAIN_UNAVAILABLE",
        "VERSION_NOT_ACCEPTABLE STALE_GENERATION INVALID_PROFILE",
    ),
    "the program or somebody else ended the session": _set(
        "CLIENT_GONE INSTANCE_DELETED INSTANCE_NOT_FOUND SESSION_NOT_FOUND",
        "SESSION_NOT_READY SET_INCOMPLETE",
    ),
    "of commands": _set("FILE_ERROR INVALID_USAGE"),
    "to owners of groups and of bitstreams, and to operators": _set(
        "INVALID_GROUP_SIZE INVALID_GOAL GOAL_INFEASIBLE GROUP_NAME_TAKEN",
        "GROUP_NOT_ELASTIC GROUP_WAITS GROUP_FAILED BITSTREAM_NOT_FOUND",
        "BITSTREAM_REFUSED",
        "BITSTREAM_IN_USE BITSTREAM_HAS_FILE BITSTREAM_HAS_NO_FILE",
        "BITSTREAM_TOO_LARGE SIGNATURE_REQUIRED INVALID_SIGNATURE",
        "INVALID_DECLARATION LENGTH_REQUIRED UPLOAD_INCOMPLETE",
        "TOO_MANY_UPLOADS STORE_UNAVAILABLE STORE_FAILED QUOTAS_IN_KEYSTONE",
        "INVALID_BUDGET BUDGET_NOT_FOUND INVALID_RESERVATION",
        "RESERVATION_NOT_FOUND RESERVATION_CONFLICT TOO_MANY_RESERVATIONS",
        "PATH_NOT_FOUND METHOD_NOT_ALLOWED NOT_ACCEPTABLE BODY_TOO_LARGE",
        "UNSUPPORTED_MEDIA_TYPE PROJECT_NOT_FOUND HOST_NOT_FOUND",
        "DEVICE_NOT_FOUND SLOT_NOT_FOUND FEWER_THAN_RESERVED SLOT_IN_USE",
        "SLOT_NOT_TESTABLE HOST_DOWN NOVA_UNAVAILABLE PLACEMENT_UNAVAILABLE",
        "PLACEMENT_REFUSED DATABASE_SCHEMA_MISMATCH INVALID_CONFIGURATION",
    ),
    "of boards and their files, which become PREPARE_FAILED and others": _set(
        "INVALID_PACKAGE INVALID_MANIFEST SOURCE_REFUSED INVALID_XCLBIN",
        "XCLBIN_TRUNCATED XCLBIN_OTHER_PLATFORM XCLBIN_OTHER_SHELL",
        "DRIVER_UNKNOWN INVALID_SETTINGS NO_SUCH_SLOT NOT_PROGRAMMED",
        "PROGRAMMING_FAILED SCRUB_FAILED PROCESS_SPENT RECYCLE SLOT_BUSY",
        "MOVED RESIZED",
    ),
}


def test_each_code_has_a_class_or_is_grouped() -> None:
    reasons = {name for name, row in codes.ERRORS.items() if row.waits}
    places = [
        OWN,
        frozenset(errors.CAUSES),
        # These are refusals, too.
        reasons.difference((codes.NO_COMPATIBLE_SLOT, codes.BUDGET_EXHAUSTED)),
        *GROUPED.values(),
    ]
    assert frozenset().union(*places) == frozenset(codes.ERRORS)
    assert sum(map(len, places)) == len(codes.ERRORS)


@pytest.mark.parametrize("code", sorted(errors.CAUSES))
@pytest.mark.parametrize(
    "called",
    [
        errors.FpgapoolError,
        errors.InvalidRequest,
        errors.RequestRejected,
        errors.SessionFailed,
        errors.TaskFailed,
    ],
)
def test_an_error_is_of_two_classes(
    code: str, called: type[errors.FpgapoolError]
) -> None:
    error = called(code, "why")
    error.request_id = "req-1"
    cause = errors.CAUSES[code]
    for one in (error, pickle.loads(pickle.dumps(error)), error.again()):
        assert isinstance(one, called)
        assert isinstance(one, cause)
        assert type(one).__name__ == cause.__name__
        assert (one.code, one.message, one.request_id) == (
            code,
            "why",
            "req-1",
        )
        assert str(one) == f"{code}: why (req-1)"
    assert isinstance(errors.rejection(code, "why"), cause)
