# SPDX-License-Identifier: Apache-2.0

"""Nonsense that goes with faults."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from fpgapool.objects import base
from tests.chaos import fuzzers

HOST = "00000001-0000-4000-8000-000000000000"


def test_the_seed_decides_what_is_drawn() -> None:
    drawn = fuzzers.drawn(st.binary(min_size=8), 1)
    assert drawn == fuzzers.drawn(st.binary(min_size=8), 1)
    assert drawn != fuzzers.drawn(st.binary(min_size=8), 2)
    assert len(drawn) > 1


def test_nobody_becomes_a_host_or_a_leader() -> None:
    report = {base.DATA_KEY: {"host_uuid": HOST, "slots": []}}
    kwargs = {"report": report, "leader_epoch": 2**62, "device": "board0"}
    left = fuzzers.without_effect(kwargs)
    assert left["report"][base.DATA_KEY] == {"host_uuid": 1, "slots": []}
    assert left["leader_epoch"] == 1
    assert left["device"] == "board0"
    assert report[base.DATA_KEY]["host_uuid"] == HOST


def test_all_methods_are_called_in_the_form_of_a_cast() -> None:
    queues = fuzzers.queues([HOST])
    assert f"fpgapool-agent.{HOST}" in queues
    assert "report" in queues["fpgapool-conductor"].methods
    assert "assign" in queues[f"fpgapool-agent.{HOST}"].methods
    envelope = fuzzers.envelope("assign", {"a": "\ud800"}, "1.2")
    assert json.loads(envelope["oslo.message"])["args"] == {"a": "\ud800"}
