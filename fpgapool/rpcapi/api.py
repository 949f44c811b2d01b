# SPDX-License-Identifier: Apache-2.0

"""Client side of the REST API processes' RPC interface."""

from collections.abc import Iterable
from typing import Any

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.rpcapi import declared

TOPIC = "fpgapool-api"

# Increased with every change; the API's endpoint has the same version.
VERSION = "1.0"

#: The version that introduced each method, if not the first one.
SINCE: dict[str, str] = {}

#: The name of all processes, so that the broker does not accumulate queues:
#: messages go to all of them, each of which has a queue that expires.
SERVER = "api"

#: Maximum number of sessions in a message.
MAX_CHANGES = 100


class ApiAPI:
    """Sends casts to all processes of the REST API.

    Every method raises oslo_messaging.MessagingException if the broker is
    unreachable. A cast may be lost even if the method returns.
    """

    def __init__(
        self,
        watch: rpc.Watch | None = None,
        keys: signing.Keys | None = None,
    ) -> None:
        self._client = rpc.Client(
            messaging.Target(topic=TOPIC, version=VERSION, fanout=True),
            since=SINCE,
            watch=watch,
            keys=keys,
        )

    @declared.sent_by("_cast")
    def sessions_changed(self, views: Iterable[objects.SessionView]) -> None:
        """Send the sessions that have changed.

        Those whose clients may connect have their secrets. Only processes of
        the API can read this topic.
        """

    def _cast(self, method: str, **kwargs: Any) -> None:
        self._client.cast(method, **kwargs)
