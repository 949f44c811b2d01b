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
    """Copies, and fails at an input of ``fail``."""

    def __init__(self, params):
        pass

    def process(self, chunk_in, chunk_out, offset_bytes):
        if chunk_in == b"fail":
            raise RuntimeError("the board is on fire")
        chunk_out[: len(chunk_in)] = chunk_in
        return len(chunk_in)


class BrokenDriver(emulator.EmulatorDriver):
    """The emulator with broken cores."""

    def open(self, device, slot, params):
        return BrokenCore(params)
