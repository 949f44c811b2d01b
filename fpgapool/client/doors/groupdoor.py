# SPDX-License-Identifier: Apache-2.0

"""How a program finds the desks of a group."""

from __future__ import annotations

import collections.abc
import dataclasses
import socket
import threading
import time
import typing

from fpgapool.client import errors
from fpgapool.client.doors import view as views
from fpgapool.client.links import waiting
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.vocabulary import codes

# The desk of this host, if it is one of the group's.
_LOCAL = ((views.LOCAL_NETWORK, "", 0),)

# The door knows that this client, or the whole group, has ended.
_GONE = frozenset({codes.GROUP_CLIENT_NOT_FOUND, codes.GROUP_NOT_FOUND})

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


class Outages:
    """Asks a door where a group is, and notices when the pool is away.

    It is away while neither a desk nor the door answers.

    :param door: gave the access.
    :param access: of this client.
    :param timeout_s: how long the pool may be away; None: for ever.
    :param on_away: called when it goes away.
    """

    def __init__(
        self,
        door: GroupDoor,
        access: Access,
        timeout_s: float | None = None,
        on_away: waiting.AwayCallback | None = None,
    ) -> None:
        self._door = door
        self._access = access
        self._timeout_s = timeout_s
        self._on_away = on_away
        # Each host of the group has a thread that asks.
        self._lock = threading.Lock()
        self._since_s: float | None = None

    def end(self) -> None:
        """Note that a desk has answered."""
        with self._lock:
            self._since_s = None

    def ask(
        self, has_desk: collections.abc.Callable[[], bool]
    ) -> groups.MemberList | None:
        """Ask the door, as a desk cannot be reached.

        :param has_desk: whether another one is connected.
        :returns: the hosts of the group; None if the door does not say.
        :raises errors.TaskFailed: ``ACCESS_REVOKED`` if this client, or the
            group, has ended.
        :raises errors.FrontDoorUnavailable: if the pool was away too long.
        :raises errors.TooManyOpenFiles: if this program cannot ask.
        """
        try:
            members = self._door.members(self._access)
        except errors.TooManyOpenFiles:
            raise
        except (errors.FpgapoolError, OSError) as exc:
            if isinstance(exc, errors.FpgapoolError) and exc.code in _GONE:
                # Its desks may be gone, so that none of them says so.
                raise errors.TaskFailed(
                    codes.ACCESS_REVOKED, exc.message
                ) from exc
            if isinstance(exc, errors.RequestRejected) or has_desk():
                self.end()
            else:
                self._go_on(exc)
            return None
        self.end()
        return members

    def _go_on(self, reason: Exception) -> None:
        now_s = time.monotonic()
        with self._lock:
            begins = self._since_s is None
            self._since_s = since_s = self._since_s or now_s
        if self._timeout_s is not None and now_s >= since_s + self._timeout_s:
            why = getattr(reason, "message", reason)
            raise errors.FrontDoorUnavailable(
                f"the pool was away for {self._timeout_s:g} s: {why}"
            ) from reason
        if begins and self._on_away is not None:
            self._on_away("the pool's front door", self._timeout_s)


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
