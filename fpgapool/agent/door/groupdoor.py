# SPDX-License-Identifier: Apache-2.0

"""The front door's operations about groups."""

from __future__ import annotations

import contextlib
import dataclasses
import typing
import uuid
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool import objects
from fpgapool.agent.door import doorway
from fpgapool.agent.door import requests
from fpgapool.common import exception
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

#: Of a reply.
Members: typing.TypeAlias = dict[str, object]
#: Checks a message, and returns the call that it asks for.
Calling: typing.TypeAlias = Callable[
    [doorway.Client, requests.Members], Callable[[], Members]
]


class Groups:
    """Makes the calls to the conductor; none of them is made here.

    :param conductor: the conductor's RPC interface.
    :param host_uuid: of this host.
    """

    def __init__(
        self, conductor: conductor_api.ConductorAPI, host_uuid: str
    ) -> None:
        self._conductor = conductor
        self._host_uuid = host_uuid

    def attaching(
        self, client: doorway.Client, members: requests.Members
    ) -> Callable[[], Members]:
        """Return what attaches a client to a group.

        :param members: of the message.
        :returns: a function that returns the members of the reply.
        :raises rules.RequestError: if the message is wrong; the function
            also raises it if the conductor refuses.
        """
        name = requests.group_name(members)
        secret_hash = requests.secret_hash(members)

        def attach() -> Members:
            group = self._find(client.project_id, name)
            client_id = str(uuid.uuid4())
            wanted = objects.AttachClient(
                client_id=client_id,
                group_id=group.group_id,
                project_id=client.project_id,
                user_id=client.user_id,
                secret_hash=secret_hash,
            )
            with _refusals():
                self._conductor.attach_client(wanted)
            return {"client_id": client_id, **self._public(group)}

        return attach

    def showing(
        self, client: doorway.Client, members: requests.Members
    ) -> Callable[[], Members]:
        """Return what shows a group; see :meth:`attaching`."""
        group_id = requests.group_id(members)
        return lambda: self._public(self._find(client.project_id, group_id))

    def detaching(
        self, client: doorway.Client, members: requests.Members
    ) -> Callable[[], Members]:
        """Return what ends a client of the project, for its program.

        See :meth:`attaching`.
        """
        group_id = requests.group_id(members)
        client_id = requests.client_id(members)

        def detach() -> Members:
            with _refusals():
                self._conductor.detach_client(
                    client.project_id, group_id=group_id, client_id=client_id
                )
            return {}

        return detach

    def _find(self, project_id: str, name: str) -> objects.GroupView:
        found = self._conductor.find_groups(project_id, name)
        if not found:
            raise rules.RequestError(
                codes.GROUP_NOT_FOUND, f"there is no group {name!r:.80}"
            )
        if len(found) > 1:
            # Other projects share theirs.
            raise rules.RequestError(
                codes.INVALID_REQUEST,
                f"{len(found)} groups have the name {name!r:.80}; give the ID",
            )
        return found[0]

    def _public(self, group: objects.GroupView) -> Members:
        """Return what a client may know of its group.

        Of a group on very many hosts it learns of those that one message
        holds, this host first; on other hosts, of others.
        """
        hosts = sorted(
            group.hosts,
            key=lambda one: (one.host_uuid < self._host_uuid, one.host_uuid),
        )
        return {
            "group_id": group.group_id,
            "accelerator": group.accelerator,
            "hosts": doorway.fitting(map(dataclasses.asdict, hosts)),
            "hosts_revision": group.hosts_revision,
        }


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except exception.GroupRefused as error:
        raise rules.RequestError(error.code, error.message) from error
