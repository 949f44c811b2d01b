# SPDX-License-Identifier: Apache-2.0

"""Bases of errors."""

from __future__ import annotations

import copyreg
import typing


class PicklableError(Exception):
    """An error that can be pickled and copied with any constructor.

    Otherwise Python calls the constructor with ``args``, the text alone.
    """

    def __reduce__(self) -> tuple[typing.Any, ...]:
        made_by = type(self), *self.args
        return copyreg.__newobj__, made_by, self.__dict__  # type: ignore


class CodedError(PicklableError):
    """An error with a stable code for programs and a message for people.

    :ivar message: explanation for people; it may change.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
