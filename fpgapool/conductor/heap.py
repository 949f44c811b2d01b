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

"""The garbage collector, and a queue that may be long.

Sessions are freed by counting references: there are no cycles through them.
The collector does not know, and would look at all of them again and again
while they are being read, and whenever the process has grown by a quarter,
while everybody waits.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def filling() -> Iterator[None]:
    """Read what stays: nothing is collected, now and until :func:`spill`.

    What exists at the end of the block is passed over by the collector.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def spill(*, collect: bool) -> None:
    """Have the collector look at everything again.

    :param collect: and have it do so at once.
    """
    gc.unfreeze()
    if collect:
        gc.collect()
