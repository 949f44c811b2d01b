# SPDX-License-Identifier: Apache-2.0

"""Services of OpenStack that belong together, started side by side."""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable
from collections.abc import Collection

from tests.services import glance as glance_service
from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import nova as nova_service
from tests.services import openstack
from tests.services import placement as placement_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

#: What each needs besides broker and database; what is needed comes first.
NEEDS = {
    "keystone": frozenset[str](),
    "glance": frozenset({"keystone"}),
    "placement": frozenset({"keystone"}),
    "nova": frozenset({"keystone", "glance", "placement"}),
}


def complete(names: Collection[str]) -> frozenset[str]:
    """Add what services need to them."""
    return frozenset(names).union(*(NEEDS[name] for name in names))


class Stack:
    """Services of OpenStack, with the broker and the database of theirs.

    Each is made when it is asked for, and runs after :meth:`start`, or its
    own ``start``.

    :param workspace: where they live and who cleans up after them.
    :param computes: how many of Nova's only pretend.
    :param tries: how often Placement tries.
    """

    def __init__(
        self,
        workspace: process.Keeper,
        rabbitmq: rabbitmq_service.RabbitMQ,
        mariadb: mariadb_service.MariaDB,
        computes: int = nova_service.COMPUTES,
        tries: int = placement_service.RECOMMENDED_TRIES,
    ) -> None:
        self._computes = computes
        self._tries = tries
        self._workspace = workspace
        self.rabbitmq = rabbitmq
        self.mariadb = mariadb

    @functools.cached_property
    def keystone(self) -> keystone_service.Keystone:
        return keystone_service.Keystone(self._workspace, self.mariadb)

    @functools.cached_property
    def accounts(self) -> openstack.Accounts:
        """What makes users and projects."""
        return openstack.Accounts(self.keystone.auth_url)

    @functools.cached_property
    def glance(self) -> glance_service.Glance:
        return glance_service.Glance(
            self._workspace, self.mariadb, self.keystone
        )

    @functools.cached_property
    def placement(self) -> placement_service.Placement:
        return placement_service.Placement(
            self._workspace, self.mariadb, self.keystone, self._tries
        )

    @functools.cached_property
    def nova(self) -> nova_service.Nova:
        return nova_service.Nova(
            self._workspace,
            self.rabbitmq,
            self.mariadb,
            self.keystone,
            self._computes,
        )

    def start(self, names: Collection[str]) -> None:
        """Start what does not run, with what it needs; again is harmless.

        :raises ServiceError: if something does not start.
        """
        wanted = [name for name in NEEDS if name in complete(names)]
        steps = [self._first_step(name) for name in reversed(wanted)]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            broker = pool.submit(self.rabbitmq.start)
            self.mariadb.start()
            # The longest one first.
            done = [broker, *(pool.submit(step) for step in steps)]
        for each in done:
            each.result()
        if wanted:
            self.accounts.create_fpgapool()
        for name in wanted[1:]:
            getattr(self, name).register(self.accounts)
        if "nova" in wanted:
            self.nova.start()

    def _first_step(self, name: str) -> Callable[[], None]:
        """Return what needs none of the others."""
        if name == "nova":
            return self.nova.prepare
        start: Callable[[], None] = getattr(self, name).start
        return start

    def urls(self, names: Collection[str]) -> dict[str, str]:
        """Return where services are, by name."""
        return {
            name: self._url(name) for name in NEEDS if name in complete(names)
        }

    def _url(self, name: str) -> str:
        if name == "keystone":
            return self.keystone.auth_url
        url: str = getattr(self, name).base_url
        return url
