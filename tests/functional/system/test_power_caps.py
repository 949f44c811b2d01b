# SPDX-License-Identifier: Apache-2.0

"""Caps on power in the boards files of hosts."""

import pathlib

import yaml

from fpgapool import client
from fpgapool.accelerators import base
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.harness import cloud as clouds
from tests.harness import users
from tests.harness import waiting

LIMIT_S = 60
SLOT_W = 20.0


def write_profile(directory: pathlib.Path) -> None:
    """Describe ``copy`` with its power in the slots of the pool."""
    path = pathlib.Path(base.__file__).parent / "profiles" / "copy.yaml"
    profile = yaml.safe_load(path.read_text())
    platform = {"peak_bytes_per_s": 1e9, "active_w": SLOT_W}
    profile["platforms"] = {"medium": platform}
    (directory / "copy.yaml").write_text(yaml.safe_dump(profile))


def test_a_slot_above_the_cap_is_given_when_the_cap_is_raised(
    make_cloud, tmp_path
) -> None:
    write_profile(tmp_path)
    cloud = make_cloud(
        clouds.HostPlan("board", slots=2),
        variables={base.DIRECTORY_VARIABLE: str(tmp_path)},
    )
    host = cloud.hosts["board"]
    first = users.User(host.socket_path(), 1)
    first.start()
    assert first.begun.wait(LIMIT_S)
    host.write_boards(power_cap_w=SLOT_W)
    waiting.wait_until(
        lambda: reasons(host) == (codes.POWER_CAP,),
        "the conductor knows the cap",
        LIMIT_S,
    )
    with host.door() as door:
        request_id = door.open()
        view = door.wait_state(request_id, states.QUEUED)
        # A pass, at least, has been made when this is answered.
        assert reasons(host) == (codes.POWER_CAP,)
        assert cloud.state(view["session_id"]) == states.QUEUED
        host.write_boards(power_cap_w=2 * SLOT_W)
        door.wait_state(request_id, states.READY)
    first.enough.set()
    first.wait()


def reasons(host: clouds.Host) -> tuple[str, ...]:
    """Return why another session would wait."""
    door = host.socket_path()
    return client.acc_dry_run("copy", 1000, front_door=door).reasons
