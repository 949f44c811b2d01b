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

"""Waits for descriptors, however many this process has open.

``select.select`` knows only those below 1024.
"""

import select
import time
import typing


class _HasDescriptor(typing.Protocol):
    def fileno(self) -> int: ...


def is_readable(file: int | _HasDescriptor, timeout_s: float | None) -> bool:
    """Wait until there is something to read, or the end of the file.

    :param timeout_s: in seconds; None waits without limit.
    :raises ValueError: if the file is closed.
    """
    poller = select.poll()
    poller.register(file, select.POLLIN)
    return bool(poller.poll(None if timeout_s is None else timeout_s * 1000))


def read_line(file: typing.BinaryIO, timeout_s: float) -> bytes:
    """Return what is written to an unbuffered pipe up to the line's end.

    :returns: less than a line if the writer ended or the time was over.
    """
    deadline_s = time.monotonic() + timeout_s
    line = b""
    while not line.endswith(b"\n"):
        if not is_readable(file, max(0.0, deadline_s - time.monotonic())):
            break
        piece = file.read(65536)
        if not piece:
            break
        line += piece
    return line
