# SPDX-License-Identifier: Apache-2.0

"""How a program finds the desks of a group."""

from __future__ import annotations

import collections.abc
import dataclasses
import socket
import typing

from fpgapool.protocol import groups


@dataclasses.dataclass(frozen=True)
class Access:
    """What a program needs to use a group.

    :ivar group_id: the pool's ID of the group.
    :ivar client_id: the pool's ID of this client.
    :ivar secret: proves to each desk that it is this client.
    :ivar members: the hosts of the group, and how many members each has.
    :ivar profile: public description of its accelerator; empty if the
        program's project does not see it.
    :ivar require_tls: send nothing to another host without TLS.
    """

    group_id: str
    client_id: str
    secret: str = dataclasses.field(repr=False)
    members: groups.MemberList
    profile: collections.abc.Mapping[str, typing.Any] = dataclasses.field(
        default_factory=dict
    )
    require_tls: bool = False


class GroupDoor(typing.Protocol):
    """What gives access to groups.

    Its methods are called from several threads.
    """

    def attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> Access:
        """Become a client of a group, and wait until it has members.

        :param name: of the group, or its ID.
        :param accelerator: that it must have; None: any.
        :param deadline_s: absolute deadline.
        :raises errors.FpgapoolError: if that is refused.
        """

    def members(self, access: Access) -> groups.MemberList:
        """Return the hosts that the group has now.

        Called when no desk can be reached.

        :raises errors.FpgapoolError: if that is refused.
        :raises OSError: if the door does not answer.
        """

    def connect_local(self, access: Access, host_id: str) -> socket.socket:
        """Connect to the desk of this host.

        :returns: a connected Unix stream socket.
        :raises OSError: if there is no connection.
        """

    def detach(self, access: Access) -> None:
        """Stop being a client of the group; it never raises."""
