# SPDX-License-Identifier: Apache-2.0

import dataclasses
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.db import api
from fpgapool.db import models
from fpgapool.db import records
from fpgapool.vocabulary import states

TABLES = {
    api.HostRecord: models.hosts,
    api.DeviceRecord: models.devices,
    api.SlotRecord: models.slots,
    api.ReservationRecord: models.reservations,
    api.FaultRecord: models.faults,
    api.AcceleratorRecord: models.accelerators,
    api.BitstreamRecord: models.bitstreams,
    api.SessionRecord: models.sessions,
    api.GroupRecord: models.groups,
    api.GroupClientRecord: models.group_clients,
    api.GroupDeskRecord: models.group_desks,
    api.AssignmentRecord: models.assignments,
    api.UsageRecord: models.usage,
    api.QuotaRecord: models.quotas,
    api.InstanceRecord: models.instances,
}

small_ids = st.integers(1, 3)
any_host = st.builds(
    api.HostRecord,
    id=small_ids,
    uuid=st.text(max_size=3),
    name=st.just("n"),
    nic_bytes_per_s=st.floats(0, 9),
)
any_assignment = st.builds(
    api.AssignmentRecord,
    slot_id=small_ids,
    holder_kind=st.just("session"),
    holder_id=small_ids,
    accelerator=st.just("aes"),
    generation=st.integers(0, 9),
    phase=st.just("ready"),
    local=st.booleans(),
    assigned_at=st.just(1.0),
)
any_changes = st.builds(
    api.Changes.of,
    st.lists(any_host | any_assignment, max_size=4),
    st.lists(small_ids, max_size=2),
)


def _apply(tables: dict, changes: api.Changes) -> None:
    """What the database does, in a dictionary."""
    for slot_id in changes.released_slots:
        tables.pop((api.AssignmentRecord, slot_id), None)
    for record_class in TABLES:
        for record in changes.rows(record_class):
            tables[
                record_class,
                getattr(record, records.KEYS.get(type(record), "id")),
            ] = record


@given(st.lists(any_changes, max_size=5))
def test_merged_has_the_effect_of_its_parts_in_order(parts):
    one_by_one: dict = {}
    for part in parts:
        _apply(one_by_one, part)
    at_once: dict = {}
    _apply(at_once, api.Changes.merged(parts))
    assert at_once == one_by_one


@given(any_changes)
def test_merging_leaves_the_parts_alone(part):
    copy = api.Changes.merged([part])
    api.Changes.merged([part, api.Changes.of([], [1, 2, 3])])
    assert copy == api.Changes.merged([part])


def test_only_changes_are_true():
    host = api.HostRecord(id=1, uuid="u", name="n", nic_bytes_per_s=1.0)
    assert not api.Changes()
    assert not api.Changes.merged([api.Changes(), api.Changes.of([])])
    assert api.Changes.of([host])
    assert api.Changes.of([], [1])


@pytest.mark.parametrize("record_class", TABLES)
def test_members_are_named_like_the_columns(record_class):
    members = [field.name for field in dataclasses.fields(record_class)]
    assert sorted(members) == sorted(TABLES[record_class].columns.keys())


def test_every_table_has_a_record():
    rest = set(models.metadata.tables.values()) - set(TABLES.values())
    assert rest == {models.leader_lease}


def test_columns_hold_all_states():
    length = models.sessions.c.state.type.length
    assert max(len(state) for state in states.ALL) <= length
    length = models.groups.c.state.type.length
    assert max(len(state) for state in states.GROUP_STATES) <= length
    length = models.group_clients.c.state.type.length
    assert max(len(state) for state in states.CLIENT_STATES) <= length


@pytest.mark.parametrize(
    ("queued_at", "assigned_at", "latest_at"),
    [([], [], 0.0), ([5.0, 7.0], [6.0], 7.0), ([5.0], [8.0], 8.0)],
)
def test_the_newest_time_of_what_is_under_way(
    queued_at, assigned_at, latest_at
):
    snapshot = api.Snapshot(
        live_sessions=[types.SimpleNamespace(queued_at=t) for t in queued_at],
        assignments=[
            types.SimpleNamespace(assigned_at=t) for t in assigned_at
        ],
    )
    assert snapshot.latest_at == latest_at
