# SPDX-License-Identifier: Apache-2.0

"""A scene in which the pool has to do without one of its services."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping

from tests.functional.system import matrix
from tests.harness import cloud as clouds
from tests.harness import scene as scenes
from tests.harness import waiting

OPEN_TIMEOUT_S = 4
REPORT_TIMEOUT_S = 4

#: How long something is away: longer than hosts may be silent and a lease
#: lasts; if it is frozen, longer than connections to the broker and to the
#: database take to fail.
AWAY_S = {"kill": 6.0, "stop": 12.0, "restart": 0.0}

OPTIONS: clouds.Options = {
    "conductor": {
        **scenes.OPTIONS["conductor"],
        "report_timeout_s": REPORT_TIMEOUT_S,
    },
    "agent": {"open_timeout_s": OPEN_TIMEOUT_S},
    "oslo_messaging_rabbit": {"heartbeat_timeout_threshold": 4},
}

LIMITS_S = {
    "": matrix.MARGIN_S,
    "[agent] open_timeout_s": OPEN_TIMEOUT_S + matrix.MARGIN_S,
}


@dataclasses.dataclass
class Outage:
    """What has become of the sessions, and of those who asked for one.

    :ivar opens: the code that a new request got meanwhile; empty if it was
        taken in.
    """

    fates: Mapping[str, scenes.Fate]
    opens: str
    opens_s: float


def play(
    cloud: clouds.Cloud,
    cells: Mapping[str, matrix.Cell],
    limits_s: Mapping[str, float],
    *,
    strike: Callable[[], object],
    recover: Callable[[], object],
    away_s: float,
) -> Outage:
    """Play a scene.

    :param cloud: with the hosts of a scene and OPTIONS.
    :param cells: what must become of each session.
    :param recover: ends it; harmless where nothing is to be ended.
    :param away_s: how long it lasts at least.
    """
    with scenes.Scene(cloud) as scene:
        try:
            scene.strike(strike)
            struck_s = time.monotonic()
            code, opens_s = try_to_open(scene)
            scene.actors["ACTIVE"].wait_progress()
            left_s = struck_s + away_s - time.monotonic()
            threading.Event().wait(max(0.0, left_s))
            scene.actors["ACTIVE"].wait_progress()
        finally:
            recover()
        scene.settle(cells, limits_s)
        waiting.wait_until(
            lambda: try_to_open(scene)[0] == "", "requests are taken in again"
        )
        return Outage(scene.finish(), code, opens_s)


def try_to_open(scene: scenes.Scene) -> tuple[str, float]:
    """Ask for a session.

    :returns: the code of the refusal, empty if there is none, and the time
        it took in seconds.
    """
    asked_s = time.monotonic()
    with scene.home.door() as door:
        request_id = door.open()
        view = door.wait_state(request_id, "QUEUED", "REJECTED")
    code = view["reason"] if view["state"] == "REJECTED" else ""
    return code, time.monotonic() - asked_s


def check_opens(played: Outage, fault: matrix.Fault) -> None:
    """Compare what a new request got with the row of the fault.

    :raises AssertionError: if they differ.
    """
    assert played.opens == fault.opens
    assert played.opens_s <= LIMITS_S[fault.opens_limit]
