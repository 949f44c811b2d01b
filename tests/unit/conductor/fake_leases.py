# SPDX-License-Identifier: Apache-2.0

"""A database and leases without a server."""

import concurrent.futures
import dataclasses
import queue
import threading
from collections.abc import Collection

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.conductor.decisions import effects
from fpgapool.db import api as db_api
from tests.functional.db import factory
from tests.harness import waiting
from tests.unit.conductor import world


class FakeDatabase:
    """Commits into a list, or raises what it is told to."""

    failing = False

    def __init__(self) -> None:
        self.committed: list[db_api.Changes] = []
        self.withdrawn: list[set[int]] = []
        self.holders: list[db_api.SessionRecord] = []
        self.errors: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.entered = threading.Event()
        self.proceed = threading.Event()
        self.proceed.set()

    def commit(
        self,
        epoch: int,
        changes: db_api.Changes,
        *,
        admitted: Collection[int],
        withdrawn: Collection[int],
    ) -> list[db_api.SessionRecord]:
        self.entered.set()
        assert self.proceed.wait(waiting.LIMIT_S)
        if not self.errors.empty():
            raise self.errors.get()
        self.committed.append(changes)
        self.withdrawn.append(set(withdrawn))
        return self.holders if admitted else []


#: Of somebody who waits for an answer.
FUTURE: concurrent.futures.Future[objects.SessionView] = (
    concurrent.futures.Future()
)


def admitted(number: int) -> effects.Effects:
    """A session comes, and its front door shall hear of it."""
    view = dataclasses.replace(news(1).view, session_id=f"s{number}")
    request = world.request(request_id=f"r{number}")
    return effects.Effects(
        db_api.Changes.of([factory.session(number, project_id="p")]),
        after_commit=[
            effects.PublishSession("a", view),
            effects.SessionChanged(view),
        ],
        admissions=[effects.NewSession(number, f"s{number}", request, FUTURE)],
    )


def news(revision: int, state: str = "QUEUED") -> effects.PublishSession:
    return effects.PublishSession(
        "a",
        objects.SessionView(
            session_id="s",
            request_id="r",
            project_id="p",
            state=state,
            accelerator="copy",
            claimed_bytes=1,
            revision=revision,
        ),
    )


class FakeLeases:
    """A lease row that a test changes as another conductor would."""

    def __init__(self, lease: db_api.Lease | None) -> None:
        self.lease = lease
        self.read = threading.Event()
        self.failing = False
        self.time_s = 1e9
        #: What leaders have said of pool time.
        self.told_s: list[float] = []

    def now(self) -> float:
        return self.time_s

    def read_lease(self) -> db_api.Lease | None:
        self.read.set()
        if self.failing:
            raise exception.DatabaseUnavailable(reason="gone")
        return self.lease

    def take_lease(self, holder, expected):
        if expected != self.lease:
            raise exception.NotLeader(reason="somebody was quicker")
        epoch = expected.epoch + 1 if expected else 1
        self.lease = db_api.Lease(holder=holder, epoch=epoch, renewals=0)
        return self.lease

    def renew_lease(self, holder, epoch, pool_time_s=None):
        if (self.lease.holder, self.lease.epoch) != (holder, epoch):
            raise exception.NotLeader(reason="deposed")
        if pool_time_s is not None:
            self.told_s.append(pool_time_s)

    def release_lease(self, holder, epoch, pool_time_s=None):
        self.renew_lease(holder, epoch, pool_time_s)
        self.lease = db_api.Lease(holder="", epoch=epoch, renewals=0)
