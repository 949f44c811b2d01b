# SPDX-License-Identifier: Apache-2.0

"""The rules of containers and heartbeats, written down as they read.

It steps from tick to tick, and looks at everything each time. Slow, and short
enough to be compared with the rules by eye. Hosts have one slot.
"""

from __future__ import annotations

import dataclasses
import math
import typing

#: Periods of heartbeats of up to four hosts, and quarters of seconds, are
#: whole ticks.
TICKS_PER_S = 24


@dataclasses.dataclass(eq=False)
class Container:
    """A container of an application; all times are in ticks."""

    id: int
    app: int
    tasks: int
    host: int | None = None
    start: int = 0
    end: int | None = None
    reprogrammings: int = 0


@dataclasses.dataclass
class App:
    """An application; all times are in ticks."""

    id: int
    arrival: int
    accelerator: str
    cpu: int
    slot: int
    misses: int = 0


@dataclasses.dataclass
class Rules:
    """A cluster and a policy; all times are in ticks."""

    policy: str
    hosts: int
    room: int
    heartbeat: int
    programming: int
    misses: int
    accelerators: tuple[str, ...]


class Timer(typing.NamedTuple):
    """The end of what a slot or a processor does."""

    at: int
    kind: str
    container: Container


class Literal:
    """One run."""

    def __init__(
        self, rules: Rules, apps: list[App], containers: list[Container]
    ) -> None:
        self.rules = rules
        self.apps = {app.id: app for app in apps}
        self.containers = containers
        # In the order of scheduling.
        self.timers: list[Timer] = []
        self.to_come = sorted(apps, key=lambda app: (app.arrival, app.id))
        self.arrived: list[App] = []
        self.queues: list[list[Container]] = [[] for _ in range(rules.hosts)]
        self.busy = [False] * rules.hosts
        self.programmed: list[str | None] = [None] * rules.hosts

    def run(self) -> None:
        """Run to the end of the last container."""
        now = 0
        while any(each.end is None for each in self.containers):
            self.do_what_is_due(now)
            for host in range(self.rules.hosts):
                phase = self.rules.heartbeat * host // self.rules.hosts
                if now >= phase and (now - phase) % self.rules.heartbeat == 0:
                    self.offer(host, now)
            # Processors that need no time.
            self.do_what_is_due(now)
            now += 1

    def do_what_is_due(self, now: int) -> None:
        """Do all but heartbeats."""
        while True:
            due = [timer for timer in self.timers if timer.at == now]
            if of_slots := [each for each in due if each.kind == "slot"]:
                self.timers.remove(of_slots[0])
                self.end_task(of_slots[0].container, now)
            elif due:
                self.timers.remove(due[0])
                container = due[0].container
                assert container.host is not None
                self.queues[container.host].append(container)
                self.start_task(container.host, now)
            elif self.to_come and self.to_come[0].arrival == now:
                self.arrived.append(self.to_come.pop(0))
            else:
                return

    def end_task(self, container: Container, now: int) -> None:
        """A board has done a task."""
        assert container.host is not None
        self.busy[container.host] = False
        container.tasks -= 1
        if container.tasks:
            cpu = self.apps[container.app].cpu
            self.timers.append(Timer(now + cpu, "processor", container))
        else:
            container.end = now
        self.start_task(container.host, now)

    def start_task(self, host: int, now: int) -> None:
        """A free board takes the oldest task."""
        if self.busy[host] or not self.queues[host]:
            return
        container = self.queues[host].pop(0)
        app = self.apps[container.app]
        taken = app.slot
        if self.programmed[host] != app.accelerator:
            self.programmed[host] = app.accelerator
            container.reprogrammings += 1
            taken += self.rules.programming
        self.busy[host] = True
        self.timers.append(Timer(now + taken, "slot", container))

    def on(self, host: int) -> list[App]:
        """Return the applications of the containers on a host."""
        return [
            self.apps[each.app]
            for each in self.containers
            if each.host == host and each.end is None
        ]

    def unplaced(self, app: App) -> list[Container]:
        """Return its containers without a host, largest first."""
        return sorted(
            (
                each
                for each in self.containers
                if each.app == app.id and each.host is None
            ),
            key=lambda each: (-each.tasks, each.id),
        )

    def offer(self, host: int, now: int) -> None:
        """A heartbeat is an offer if there is room."""
        there = self.on(host)
        if len(there) >= self.rules.room:
            return
        waiting = [app for app in self.arrived if self.unplaced(app)]
        if self.rules.policy == "lpt":
            waiting.sort(
                key=lambda app: (
                    -self.unplaced(app)[0].tasks * (app.cpu + app.slot),
                    app.arrival,
                    app.id,
                )
            )
        for app in waiting:
            if self.takes(app, host, there):
                container = self.unplaced(app)[0]
                container.host = host
                container.start = now
                self.timers.append(
                    Timer(now + app.cpu, "processor", container)
                )
                return

    def takes(self, app: App, host: int, there: list[App]) -> bool:
        """Return whether an application takes an offer."""
        rules = self.rules
        if rules.policy == "naive":
            return True
        if rules.policy == "static":
            kinds = len(rules.accelerators)
            mine = rules.accelerators[host * kinds // rules.hosts]
            return app.accelerator == mine
        alike = [each for each in there if each.accelerator == app.accelerator]
        f = len(alike) / len(there) if there else math.inf
        theta = 0.0
        if rules.misses:
            theta = max(0.0, 1 - app.misses / rules.misses)
        if f >= theta:
            app.misses = 0
            return True
        app.misses += 1
        return False
