#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Sessions that send more than they claimed, on one slot."""

from __future__ import annotations

import pytest

from fpgapool import client
from tests.harness import cloud as clouds

# In the gate: tests/unit/core/test_claims.py, and tests/world.
pytestmark = pytest.mark.long

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(clouds.HostPlan("board", slots=1))


def run(session: client.Session, data: bytes) -> bytes:
    session.pin[: len(data)] = data
    return bytes(session.run(len(data), timeout_s=LIMIT_S))


def test_who_lies_about_the_size_makes_room_and_loses_nothing(cloud) -> None:
    """Others get the slot; the session goes on after them, byte for byte."""
    path = cloud.hosts["board"].socket_path()
    liar = client.acc_open("copy", 10, front_door=path, timeout_s=LIMIT_S)
    assert run(liar, b"a" * 1000) == b"a" * 1000
    assert run(liar, b"b" * 1000) == b"b" * 1000, "nobody waits yet"
    with client.acc_open(
        "copy", 1000, front_door=path, timeout_s=LIMIT_S
    ) as honest:
        view = cloud.wait_session(liar.session_id, "QUEUED")
        assert view["claimed_bytes"] == 4000
        assert run(honest, b"c" * 1000) == b"c" * 1000
    assert run(liar, b"d" * 1000) == b"d" * 1000
    assert liar.reopens == 1
    liar.close()
    cloud.wait_session(liar.session_id, "CLOSED")
    cloud.check_consistent()


def test_a_stateful_session_beyond_its_claim_ends_with_the_offset(
    cloud,
) -> None:
    """It cannot move, so it ends as soon as somebody else waits."""
    path = cloud.hosts["board"].socket_path()
    liar = client.acc_open("sha", 10, front_door=path, timeout_s=LIMIT_S)
    run(liar, b"a" * 1000)
    with client.acc_open(
        "copy", 1000, front_door=path, timeout_s=LIMIT_S
    ) as honest:
        assert run(honest, b"c" * 1000) == b"c" * 1000
    with pytest.raises(client.SessionFailed) as error:
        run(liar, b"b" * 1000)
    assert error.value.code == "CLAIM_EXCEEDED"
    assert error.value.offset_bytes == 1000
    view = cloud.wait_session(liar.session_id, "FAILED")
    assert view["reason"] == "CLAIM_EXCEEDED"
    liar.close()
    cloud.check_consistent()
