# SPDX-License-Identifier: Apache-2.0

"""Connections that break, for sessions with a worker."""

from fpgapool import client
from fpgapool.common.channels import channel

TIMEOUT_S = 60


class Breaker(client.CancelToken):
    """Knows the newest connection, and breaks it."""

    def attach(self, attached: channel.Channel) -> None:
        super().attach(attached)
        self.newest = attached

    def break_connection(self) -> None:
        self.newest.shutdown()
