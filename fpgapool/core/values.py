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

"""Values that are made by the thousand in a second."""

import dataclasses
import typing

_T = typing.TypeVar("_T")


@typing.dataclass_transform(frozen_default=True)
def value(cls: type[_T]) -> type[_T]:
    """Make a class a dataclass whose members nobody changes.

    That they stay is checked by the type checker alone: a dataclass that
    checks it itself takes four times as long to make, and events and
    instructions are made several times for each decision.
    """
    return dataclasses.dataclass(slots=True, unsafe_hash=True)(cls)
