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

"""A conductor that goes on as the leader whatever the lease says."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from fpgapool.cmd import conductor
from fpgapool.conductor import election


def _hold(
    self: election.Election,
    epoch: int,
    stopping: threading.Event,
    on_renewed: Callable[[], None],
) -> bool:
    """Renew nothing and look at nothing, until a write is refused."""
    stopping.wait()
    return True


if __name__ == "__main__":
    election.Election.hold = _hold  # type: ignore[method-assign]
    sys.exit(conductor.main())
