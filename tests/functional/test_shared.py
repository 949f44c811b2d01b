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

"""Servers that processes share can be used, and not harmed, by each."""

from collections.abc import Callable
from collections.abc import Iterator

import pytest

from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import shared


@pytest.fixture
def lender() -> Iterator[shared.Lender]:
    """Give the workspace of one small server."""
    with shared.Lender() as workspace:
        rabbitmq_service.PortMapper(workspace).start()
        workspace.publish()
        yield workspace


def borrowed(lender: shared.Lender) -> rabbitmq_service.PortMapper:
    """Give the server as another process sees it."""
    return rabbitmq_service.PortMapper(shared.Borrower(lender.file))


def test_server_is_found_where_it_listens(lender: shared.Lender) -> None:
    server = borrowed(lender)
    server.ensure_running()
    assert server.running
    assert not process.port_is_free(server.port)


@pytest.mark.parametrize(
    "harm",
    [
        process.Service.kill,
        process.Service.pause,
        process.Service.restart,
        process.Service.stop,
    ],
)
def test_server_cannot_be_harmed(
    lender: shared.Lender, harm: Callable[[process.Service], None]
) -> None:
    server = borrowed(lender)
    with pytest.raises(process.ServiceError, match="fixture own_epmd"):
        harm(server)
    assert server.is_ready()


def test_nobody_else_starts_a_server_that_has_ended() -> None:
    with shared.Lender() as workspace:
        rabbitmq_service.PortMapper(workspace).start()
        workspace.publish()
        server = borrowed(workspace)
    with pytest.raises(
        process.ServiceError, match="which the processes share, has ended"
    ):
        server.ensure_running()
