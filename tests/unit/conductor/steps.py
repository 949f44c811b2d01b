# SPDX-License-Identifier: Apache-2.0

"""Steps that many tests of the engine take."""

import dataclasses
import math

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.vocabulary import states
from tests.unit.conductor import world


def open_until_ready(pool: world.Conductor, host: str = "a") -> str:
    request_id = pool.open(host)
    pool.deliver_all()
    ready_up(pool)
    return request_id


def ready_up(pool: world.Conductor) -> None:
    for agent in pool.agents.values():
        for number, slot in enumerate(agent.slots):
            if slot.state == states.SLOT_PREPARING:
                answer = agent.prepared(number)
                assert answer is not None
                pool.feed(answer)
    pool.deliver_all()


def activate(pool: world.Conductor, number: int = 0) -> None:
    agent = pool.agents["a"]
    agent.slots[number].state = states.SLOT_ACTIVE
    pool.feed(agent.report())


def news_of(pool):
    return [message.view for message in pool.sent(effects.PublishSession)]


def outcome(
    pool: world.Conductor,
    request_id: str,
    *,
    awaited_until: float = math.inf,
    host_uuid: str | None = None,
    **changes: object,
) -> list[objects.SessionView]:
    """Ask for a session, and return what is answered; nothing so far: []."""
    request = world.request(
        request_id=request_id, host_uuid=host_uuid, **changes
    )
    pool.wire.clear()
    pool.feed(world.opening(request, awaited_until))
    return news_of(pool)


def reports(agent, boot_s: float, name: str, *sent_s: float):
    """Make reports of the agent that was started at some time."""
    for at in sent_s:
        report = agent.report()
        yield dataclasses.replace(
            report,
            host_name=name,
            agent_boot_id=f"{int(boot_s * 1e9)}-7",
            sent_at=at,
        )
