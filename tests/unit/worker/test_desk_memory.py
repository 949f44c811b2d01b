# SPDX-License-Identifier: Apache-2.0

"""What a worker says whose host has no memory for a client's buffers."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import socket
from unittest import mock

import pytest

from fpgapool.accelerators import base
from fpgapool.accelerators import copy
from fpgapool.agent.child import port
from fpgapool.agent.worker import desk
from fpgapool.agent.worker import hello
from fpgapool.agent.worker import settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import memory
from fpgapool.agent.worker.data import processing
from fpgapool.common.channels import channel
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.worker import machine_steps


def no_memory() -> OSError:
    return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


@pytest.mark.parametrize(
    ("transport", "kind", "error"),
    [
        (hello.SHM, "SharedMemory", no_memory()),
        (hello.SHM, "SharedMemory", OSError(errno.EMFILE, "Too many files")),
        (hello.STREAM, "PrivateMemory", MemoryError()),
        (hello.STREAM, "InPlaceMemory", no_memory()),
    ],
)
def test_the_slot_was_not_ready_if_there_is_no_memory(
    monkeypatch, transport, kind, error
):
    def fail(*_args: object) -> None:
        raise error

    monkeypatch.setattr(memory, kind, fail)
    core = copy.CopyCore({}) if kind != "PrivateMemory" else _Copying({})
    monkeypatch.setattr(processing, "open_core", lambda *_args: core)
    events: list[state.Event] = []
    made = desk.SessionServer(
        dataclasses.replace(
            settings.parse(json.dumps(machine_steps.SETTINGS)),
            chunk_bytes=4096,
            window_chunks=2,
        ),
        None,
        events.append,
        blocks.BlockCache(0),
        mock.Mock(),
    )
    order = machine_steps.order()
    made.arm(order, base.load_profile("copy"))
    came = hello.parse(
        {
            "session_id": order.session_id,
            "generation": order.generation,
            "secret": made.mint(order, True),
            "transport": transport,
        }
    )
    here, there = socket.socketpair()
    with here, there, pytest.raises(port.Refused) as caught:
        made.serve(came, channel.PlainChannel(here), True)
    assert caught.value.code == codes.HOST_OUT_OF_MEMORY
    assert [(one.outcome, one.code) for one in events] == [
        (states.PREPARE_FAILED, codes.HOST_OUT_OF_MEMORY)
    ]
    # The client waits for another slot.
    assert codes.HOST_OUT_OF_MEMORY in codes.SLOT_LOST


class _Copying(copy.CopyCore):
    """Does not compute in place."""

    in_place = False


def test_a_test_of_the_slot_needs_the_memory_too(monkeypatch):
    def fail(*_args: object) -> None:
        raise no_memory()

    made = desk.SessionServer(
        settings.parse(json.dumps(machine_steps.SETTINGS)),
        None,
        lambda _event: None,
        blocks.BlockCache(0),
        mock.Mock(),
    )
    made.try_memory()
    monkeypatch.setattr(memory, "SharedMemory", fail)
    with pytest.raises(OSError, match="memory"):
        made.try_memory()
