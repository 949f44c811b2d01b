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

"""A driver whose slots fail on request."""

from fpgapool.drivers import base
from fpgapool.drivers import emulator


class BrokenCore(base.Core):
    """Copies, and fails at an input of ``fail``.

    With the parameter ``in_place`` it says that it works so, and gives a byte
    less than it got.
    """

    def __init__(self, params):
        self._in_place = params.get("in_place", False)

    @property
    def in_place(self):
        return self._in_place

    def process(self, chunk_in, chunk_out, offset_bytes):
        if chunk_in == b"fail":
            raise RuntimeError("the board is on fire")
        chunk_out[: len(chunk_in)] = chunk_in
        return len(chunk_in) - self._in_place


class BrokenDriver(emulator.EmulatorDriver):
    """The emulator with broken cores."""

    def open(self, device, slot, params):
        return BrokenCore(params)
