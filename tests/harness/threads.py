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

"""Threads that have begun since a moment, and have not ended."""

from __future__ import annotations

import threading


class NewThreads:
    """Those since it was made.

    To count all would be chance: those of earlier tests may end meanwhile.
    """

    def __init__(self) -> None:
        self._known = set(threading.enumerate())

    def count(self) -> int:
        """:returns: how many there are now."""
        return len(set(threading.enumerate()) - self._known)
