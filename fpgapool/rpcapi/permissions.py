# SPDX-License-Identifier: Apache-2.0

"""Permissions of a host's user of the broker, in RabbitMQ's terms.

Names are those that oslo.messaging gives to queues and exchanges. A host with
such a user reads only its own messages, and writes only to conductors. The
broker does not identify the sender of a message: keys do
(:mod:`fpgapool.common.messaging.signing`).
"""

from __future__ import annotations

import dataclasses
import shlex

from fpgapool.common.messaging import rpc
from fpgapool.rpcapi import agent
from fpgapool.rpcapi import conductor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Permissions:
    """Regular expressions.

    :ivar configure: queues and exchanges to make and to remove.
    :ivar write: exchanges to send to, and queues to bind.
    :ivar read: queues to receive from, and exchanges to bind to.
    :ivar topic_write: routing keys to send with.
    :ivar topic_read: routing keys to bind with.
    """

    configure: str
    write: str
    read: str
    topic_write: str
    topic_read: str


def of_host(host_uuid: str) -> Permissions:
    """Return the permissions of a host's agent."""
    own = rf"{agent.TOPIC}(\.{host_uuid})?"
    queues = rf"{own}|{agent.TOPIC}_fanout_[0-9a-f]+|reply_[0-9a-f]+"
    exchanges = rf"{rpc.EXCHANGE}|{agent.TOPIC}_fanout"
    return Permissions(
        configure=f"^({exchanges}|{queues})$",
        write=f"^({rpc.EXCHANGE}|{queues})$",
        read=f"^({exchanges}|{queues})$",
        topic_write=(rf"^({conductor.TOPIC}(\.leader-[0-9]+)?|{rpc.NOBODY})$"),
        topic_read=f"^{own}$",
    )


def commands(host_uuid: str, user: str, vhost: str) -> list[str]:
    """Return the commands that give a user of the broker these permissions."""
    wanted = of_host(host_uuid)
    return [
        shlex.join(("rabbitmqctl", command, "-p", vhost, user, *values))
        for command, values in (
            (
                "set_permissions",
                (wanted.configure, wanted.write, wanted.read),
            ),
            (
                "set_topic_permissions",
                (rpc.EXCHANGE, wanted.topic_write, wanted.topic_read),
            ),
        )
    ]
