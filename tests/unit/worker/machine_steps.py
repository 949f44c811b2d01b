# SPDX-License-Identifier: Apache-2.0

"""Settings and orders of a worker."""

from fpgapool.agent.worker import state

SETTINGS = {
    "worker_id": "w",
    "device": "board0",
    "slot": 0,
    "state_dir": "/s",
    "control_socket": "/s/c",
    "data_socket": "/s/d",
    "driver": "m:C",
}


def order(generation=1, project_id="p"):
    return state.Order(
        f"s{generation}",
        generation,
        project_id,
        "copy",
        "builtin:copy",
        connect_timeout_s=30.0,
        resume_grace_s=10.0,
    )


def kinds(effects):
    return [type(effect).__name__ for effect in effects]


def ready(machine, generation=1):
    machine.handle(state.Assign(order(generation)), 1.0)
    return machine.handle(state.Programmed(generation, "copy"), 2.0)


def finish(machine, generation=1, fault=None):
    event = state.Scrubbed(generation, 10, 20, 99.0, fault)
    return machine.handle(event, 50.0)
