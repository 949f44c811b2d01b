# SPDX-License-Identifier: Apache-2.0

"""Errors of the demo, in words for its user."""

from fpgapool.vocabulary import exceptions


class DemoError(exceptions.CodedError):
    """The demo cannot go on."""


INVALID_FILE = "INVALID_FILE"
JOB_FAILED = "JOB_FAILED"
MISSING_LIBRARY = "MISSING_LIBRARY"
NO_SPACE = "NO_SPACE"
POOL_FAILED = "POOL_FAILED"
WRONG_OUTPUT = "WRONG_OUTPUT"
