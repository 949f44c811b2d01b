# SPDX-License-Identifier: Apache-2.0

"""Bases of errors."""

from __future__ import annotations

import copyreg
import typing


class PicklableError(Exception):
    """An error that can be pickled and copied, whatever its constructor takes.

    Without this, Python would call the constructor with ``args``, which
    contains only the text.
    """

    def __reduce__(self) -> tuple[typing.Any, ...]:
        made_by = type(self), *self.args
        return copyreg.__newobj__, made_by, self.__dict__  # type: ignore


class CodedError(PicklableError):
    """An error with a stable code for programs and a message for people.

    :ivar message: human-readable explanation; it may change.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
