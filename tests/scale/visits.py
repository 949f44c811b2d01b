# SPDX-License-Identifier: Apache-2.0

"""Clients: each asks for a session, waits, uses its slot and leaves."""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states
from tests.scale import host as hosts

_ACCELERATORS = ("copy", "aes", "sha", "fft")
_RESEND_S = 2.0
_TRIES = 5
_AGAIN_S = 1.0
_EARLY_S = 0.05

#: Asks the worker at a port: "connect" or "close", a session, a generation.
#: The answer goes to :meth:`Visit.answered`.
Ask = Callable[[int, str, str, int, int], None]


class Habit(NamedTuple):
    """How clients behave; times are means.

    :ivar hold_s: how long a slot is used; None for ever.
    :ivar pause_s: how long a client stays away before it comes again.
    """

    size_bytes: int
    hold_s: float | None
    pause_s: float


@dataclasses.dataclass
class Told:
    """What a client knows of its session.

    :ivar is_closed: whether the client has closed it.
    """

    state: str
    revision: int
    is_closed: bool = False


@dataclasses.dataclass(frozen=True)
class Client:
    """What a front door needs to know of a client."""

    number: int
    project_id: str
    user_id: str = "scale"
    closed: bool = False


@dataclasses.dataclass(frozen=True)
class Request:
    """A request as a front door gets it, without a connection."""

    client: Client
    members: Mapping[str, object]

    def reply(self, **_members: object) -> None:
        """Do without the answer: news of the session follow it."""


@dataclasses.dataclass(eq=False)
class Town:
    """What all clients of a process share.

    :ivar told: what clients know of all sessions that they were told of.
    :ivar is_closing: whether nobody comes or leaves any more.
    """

    rng: random.Random
    loop: agent_loop.Loop
    hosts: list[hosts.Host]
    projects: int
    ask: Ask
    told: dict[str, Told] = dataclasses.field(default_factory=dict)
    counts: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    is_closing: bool = False


class Visit:
    """A client, which comes again and again.

    :param number: unique in the process.
    """

    def __init__(self, town: Town, number: int, habit: Habit) -> None:
        self._town = town
        self._number = number
        self.habit = habit
        self._times = 0
        self._request_id = ""
        self._view: objects.SessionView | None = None
        self._asked: tuple[str, int] | None = None
        self._timer: agent_loop.Timer | None = None
        self._generation = -1
        # That of the slot, while there is one.
        self._port = 0

    def begin(self) -> None:
        """Ask for a session at any front door of the process."""
        town = self._town
        if town.is_closing:
            return
        host = town.rng.choice(town.hosts)
        if host.is_away:
            town.loop.call_later(_AGAIN_S, self.begin)
            return
        self._times += 1
        self._generation = -1
        self._host = host
        self._client = Client(
            self._number, f"project-{town.rng.randrange(town.projects)}"
        )
        self._request_id = f"{host.name}-{self._number}-{self._times}"
        self._do(
            "open",
            request_id=self._request_id,
            accelerator=town.rng.choice(_ACCELERATORS),
            size_bytes=int(self.habit.size_bytes * town.rng.uniform(0.5, 2)),
        )

    def _do(self, operation: str, **members: object) -> None:
        handler: Any = self._host.door.operations()[operation]
        try:
            handler(Request(self._client, members))
        except rules.RequestError as error:
            self._town.counts[f"refused: {error.code}"] += 1
            self._leave()

    def pushed(self, view: objects.SessionView) -> None:
        """Take news of the session from the front door."""
        town = self._town
        if not view.session_id:
            town.counts[f"refused: {view.reason}"] += 1
            if view.request_id == self._request_id:
                self._leave()
            return
        known = town.told.setdefault(view.session_id, Told("", -1))
        if view.revision > known.revision:
            known.state, known.revision = view.state, view.revision
        if view.request_id != self._request_id:
            # Late news of an earlier session.
            return
        self._view = view
        if view.state in states.TERMINAL:
            town.counts[f"ended: {view.reason}"] += 1
            self._leave()
        elif view.state == states.READY and view.generation > self._generation:
            self._generation = view.generation
            (self._port,) = [one.port for one in view.endpoints if one.port]
            town.counts["ready"] += 1
            self._ask("connect", _TRIES)
        elif view.state == states.QUEUED:
            self._port = 0
            self._rest()

    def _ask(self, what: str, tries: int) -> None:
        view = self._view
        assert view is not None
        self._asked = what, self._generation
        self._rest()
        if not tries:
            self._town.counts[f"no answer to {what}"] += 1
            if what == "close":
                self._closed(0, confirmed=False)
            return
        self._timer = self._town.loop.call_later(
            _RESEND_S, lambda: self._ask(what, tries - 1)
        )
        self._town.ask(
            self._port, what, view.session_id, self._generation, self._number
        )

    def answered(
        self, what: str, session_id: str, generation: int, answer: int | None
    ) -> None:
        """Take a worker's answer.

        :param answer: the bytes that the slot has processed; None if the
            session is not there.
        """
        view = self._view
        if (
            view is None
            or view.session_id != session_id
            or self._asked != (what, generation)
        ):
            return
        self._asked = None
        self._rest()
        if answer is None and what == "connect":
            # The order may still be on its way to the agent.
            self._town.counts["early"] += 1
            self._timer = self._town.loop.call_later(
                _EARLY_S, lambda: self._ask(what, _TRIES)
            )
        elif answer is None:
            self._town.counts["refused to close"] += 1
            self._closed(0, confirmed=False)
        elif what == "close":
            self._closed(answer, confirmed=True)
        else:
            self._use()

    def _use(self) -> None:
        self._town.counts["used"] += 1
        if self.habit.hold_s is not None:
            delay_s = self._town.rng.expovariate(1 / self.habit.hold_s)
            self._timer = self._town.loop.call_later(delay_s, self.finish)

    def finish(self) -> None:
        """Leave the slot, if there is one."""
        if self._port and self._asked is None and not self._town.is_closing:
            self._ask("close", _TRIES)

    def _closed(self, moved_bytes: int, *, confirmed: bool) -> None:
        assert self._view is not None
        self._town.counts["closed"] += 1
        self._town.told[self._view.session_id].is_closed = True
        view = self._view
        self._do(
            "close",
            session_id=view.session_id,
            generation=self._generation,
            input_bytes=moved_bytes,
            output_bytes=moved_bytes,
            confirmed=confirmed,
        )
        self._leave()

    def _leave(self) -> None:
        self._rest()
        self._view, self._asked, self._port = None, None, 0
        pause_s = self._town.rng.expovariate(1 / max(self.habit.pause_s, 0.01))
        self._town.loop.call_later(pause_s, self.begin)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
