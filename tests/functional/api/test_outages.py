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

"""Programs that wait by the REST API while the pool cannot answer."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import typing

import pytest
from keystoneauth1 import adapter
from keystoneauth1 import session as keystone_session
from keystoneauth1 import token_endpoint

from fpgapool import client
from tests.functional.api import harness
from tests.harness import waiting

# In the gate: tests/unit/client/test_outages.py, and tests/world.
pytestmark = pytest.mark.long

DATA = b"kept its place" * 1000


@pytest.fixture(scope="session")
def mariadb(own_mariadb):
    """Give the server that tests here harm."""
    return own_mariadb


class Noticing(adapter.Adapter):
    """Notices that its service is there, but cannot answer."""

    def __init__(self, address: str) -> None:
        endpoint = f"http://{address}/v1"
        auth = token_endpoint.Token(endpoint, harness.TOKEN)
        super().__init__(
            keystone_session.Session(auth=auth),
            service_type="fpgapool",
            endpoint_override=endpoint,
        )
        self.unavailable = threading.Event()

    def request(self, *arguments: typing.Any, **options: typing.Any):
        response = super().request(*arguments, **options)
        if response.status_code == 503:
            self.unavailable.set()
        return response


def test_who_waits_keeps_its_place_without_a_database(
    make_server, cloud, mariadb
) -> None:
    """It is told that nobody knows, and asks again until somebody does."""
    # Who may wait there would hear nothing, for as long as it may.
    api = make_server(conductor_timeout_s=2, max_waiters=0)
    held = [api.open_until_ready() for _ in range(2)]
    door = Noticing(api.address)
    queued = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        waits = executor.submit(
            client.run_buffer,
            "copy",
            DATA,
            front_door=client.PoolApi(door),
            on_state=lambda view: view.state == "QUEUED" and queued.set(),
            timeout_s=4 * waiting.LIMIT_S,
        )
        assert queued.wait(waiting.LIMIT_S)
        mariadb.kill()
        try:
            # What comes of it is told to nobody before it is recorded.
            for session in held:
                with contextlib.closing(harness.connect(session)) as user:
                    user.close_session()
            assert door.unavailable.wait(waiting.LIMIT_S)
            assert not waits.done()
        finally:
            mariadb.start()
        output, report = waits.result()
    assert bytes(output) == DATA
    assert report.reopens == 0
    cloud.check_consistent()
