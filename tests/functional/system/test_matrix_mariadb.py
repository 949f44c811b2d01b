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

"""The fault matrix: the database."""

from __future__ import annotations

import pytest

from tests.functional.system import matrix
from tests.harness import cloud as clouds
from tests.harness import outage
from tests.harness import scene as scenes

COMPONENT = "MariaDB"


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(*scenes.HOSTS, options=outage.OPTIONS)


@pytest.fixture(scope="module")
def played(cloud, mariadb, request) -> outage.Outage:
    """What becomes of the sessions when the database has a fault."""
    kind = request.param
    ways = {
        "kill": mariadb.kill,
        "stop": mariadb.pause,
        "restart": mariadb.stop,
    }
    return outage.play(
        cloud,
        matrix.cells(COMPONENT, kind),
        outage.LIMITS_S,
        strike=ways[kind],
        recover=mariadb.ensure_running,
        away_s=outage.AWAY_S[kind],
    )


@pytest.mark.parametrize("state", matrix.STATES)
@pytest.mark.parametrize(
    "played", matrix.KINDS, indirect=True, ids=f"{COMPONENT}-{{}}".format
)
def test_fault(played, state: str, request) -> None:
    kind = request.node.callspec.params["played"]
    cell = matrix.cells(COMPONENT, kind)[state]
    matrix.check(cell, played.fates[state])


@pytest.mark.parametrize(
    "played", matrix.KINDS, indirect=True, ids=f"{COMPONENT}-{{}}".format
)
def test_new_requests(played, request) -> None:
    """Meanwhile a request is refused with a code, and soon."""
    kind = request.node.callspec.params["played"]
    outage.check_opens(played, matrix.fault(COMPONENT, kind))
