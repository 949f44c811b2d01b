# SPDX-License-Identifier: Apache-2.0

"""Slots that fail and are tested."""

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.core import health
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world


def make_world(slots: int = 1, **limits: int) -> world.Conductor:
    """Return a world in which one failure takes a slot out."""
    wanted = {"accelerator_limit": 99, "slot_limit": 1, "device_limit": 99}
    return world.Conductor(
        [world.FakeAgent("a", slots)],
        health=health.HealthOptions(**wanted | limits),
        # Nobody loses patience while time passes.
        wait_timeout_s=1e6,
        report_timeout_s=1e6,
    )


def end(
    pool: world.Conductor,
    state: str,
    code: str,
    number: int = 0,
) -> None:
    """What a slot does has ended, and its agent says so."""
    pool.end(state, code, number)


def fail(pool: world.Conductor, number: int = 0) -> None:
    """A slot cannot be prepared."""
    pool.deliver_all()
    end(pool, states.PREPARE_FAILED, codes.PROGRAM_FAILED, number)


def orders(pool: world.Conductor) -> list[objects.AssignRequest]:
    """Return the tests that are under way to agents."""
    return [one.request for one in pool.sent(effects.TestSlot)]


def load(pool: world.Conductor, *profiles: objects.AcceleratorProfile) -> None:
    """These are all accelerators there are now."""
    pool.feed(
        inputs.Library(
            [
                db_api.AcceleratorRecord(
                    name=one.name, profile=one.to_primitive()["data"]
                )
                for one in profiles
            ]
        )
    )


def ask(
    pool: world.Conductor, accelerator: str = "", **place: object
) -> exception.FpgapoolException | None:
    """Ask for a test as an operator does; return why there is none."""
    wanted = {"host_uuid": "a", "device": "board0", "slot": 0} | place
    return pool.answer(inputs.TestNow(accelerator=accelerator, **wanted))


def code_of(refusal: exception.FpgapoolException | None) -> str | None:
    return refusal.code if refusal else None
