# SPDX-License-Identifier: Apache-2.0

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
