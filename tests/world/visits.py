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

"""What clients of a world do that those of ``tests/chaos`` do not."""

from __future__ import annotations

from fpgapool import client
from fpgapool.core import codes
from tests.chaos import clients
from tests.chaos import jobs

#: What a liar claims of what it sends.
_CLAIMED_SHARE = 4


class Visit(clients.Visit):
    """See :class:`tests.chaos.clients.Visit`."""

    def _do_liar(self) -> None:
        """Send far more than was claimed.

        It costs a stateless session its place, and nothing else; a stateful
        one may end of it.
        """
        outcome, data = self._outcome, self._data
        claimed_bytes = max(len(data) // _CLAIMED_SHARE, 1)
        output = bytearray()
        try:
            with client.acc_open(
                self._job.accelerator, claimed_bytes, **self._options
            ) as session:
                outcome.opened = True
                step = len(session.pin) // jobs.FRAME_BYTES * jobs.FRAME_BYTES
                for start in range(0, len(data), step):
                    piece = data[start : start + step]
                    session.pin[: len(piece)] = piece
                    output += session.run(
                        len(piece), timeout_s=clients.PATIENCE_S
                    )
                output += session.finish(timeout_s=clients.PATIENCE_S)
                outcome.reopens = session.reopens
                outcome.reconnects = session.reconnects
        except client.FpgapoolError as error:
            outcome.wanted = (
                error.code == codes.CLAIM_EXCEEDED and not self._job.stateless
            )
            raise
        self._check(bytes(output), self._job.expected(data))
