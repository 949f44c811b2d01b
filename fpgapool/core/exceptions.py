#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Bases of errors."""

from __future__ import annotations

import copyreg
import typing


class PicklableError(Exception):
    """An error that is pickled and copied whatever its constructor takes.

    Otherwise Python calls the constructor with ``args``, the text alone.
    """

    def __reduce__(self) -> tuple[typing.Any, ...]:
        made_by = type(self), *self.args
        return copyreg.__newobj__, made_by, self.__dict__  # type: ignore


class CodedError(PicklableError):
    """An error with a stable code for programs and a message for people.

    :ivar code: stable machine-readable code.
    :ivar message: explanation for people; it may change.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
