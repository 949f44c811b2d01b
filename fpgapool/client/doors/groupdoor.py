# SPDX-License-Identifier: Apache-2.0

"""How a program finds the desks of a group."""

from __future__ import annotations

import collections.abc
import dataclasses
import socket
import typing

from fpgapool.client import errors
from fpgapool.client.doors import view as views
from fpgapool.common import channel
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.vocabulary import codes

# The desk of this host, if it is one of the group's.
_LOCAL = ((views.LOCAL_NETWORK, "", 0),)

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0

Document: typing.TypeAlias = collections.abc.Mapping[str, typing.Any]


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
    :ivar application: with which the program shares blocks; empty: none.
    """

    group_id: str
    client_id: str
    secret: str = dataclasses.field(repr=False)
    members: groups.MemberList
    profile: collections.abc.Mapping[str, typing.Any] = dataclasses.field(
        default_factory=dict
    )
    require_tls: bool = False
    application: str = ""


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


def members_of(document: Document) -> groups.MemberList:
    """Return the hosts that the pool's description of a client has.

    :raises errors.RequestRejected: if it is not one.
    """
    try:
        found = groups.MemberList.parse(
            {
                "revision": document["hosts_revision"],
                "hosts": [
                    {**host, "host_id": host["host_uuid"]}
                    for host in document["hosts"]
                ],
            }
        )
    except (KeyError, TypeError, frames.ProtocolError) as exc:
        raise errors.RequestRejected(
            codes.PROTOCOL_ERROR, f"the pool sent a bad client: {exc}"
        ) from exc
    return groups.MemberList(
        found.revision,
        tuple(
            host._replace(
                # The API shows no local ones.
                endpoints=_LOCAL
                + tuple(
                    one
                    for one in host.endpoints
                    if one[0] != views.LOCAL_NETWORK
                )
            )
            for host in found.hosts
        ),
    )


def await_members(
    name: str,
    document: Document,
    ask_again: collections.abc.Callable[[], Document],
    pause: collections.abc.Callable[[float], object],
    deadline_s: float | None,
) -> groups.MemberList:
    """Wait until a group has members.

    :param name: of the group, for people.
    :param document: see :func:`members_of`.
    :param ask_again: returns it as it is now.
    :param pause: waits for so many seconds.
    :param deadline_s: absolute deadline.
    :raises errors.OperationTimeout: if it passes.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        found = members_of(document)
        if any(
            host.members and host.endpoints != _LOCAL for host in found.hosts
        ):
            return found
        left_s = channel.remaining_s(deadline_s)
        if left_s is not None and left_s <= pause_s:
            raise errors.OperationTimeout(
                f"the group {name} has no members yet"
            )
        pause(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        document = ask_again()


def check_accelerator(profile: Document, accelerator: str) -> None:
    """Check that a profile is that of a group's accelerator.

    :raises errors.InvalidRequest: ``WRONG_ACCELERATOR``.
    """
    if profile["name"] != accelerator:
        raise errors.InvalidRequest(
            codes.WRONG_ACCELERATOR,
            f"the group has the accelerator {accelerator}, not"
            f" {profile['name']}",
        )
