# SPDX-License-Identifier: Apache-2.0

"""What clients of a world do that those of ``tests/chaos`` do not."""

from __future__ import annotations

from fpgapool import client
from fpgapool.vocabulary import codes
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
        self._check(data, bytes(output))
