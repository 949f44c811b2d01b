# SPDX-License-Identifier: Apache-2.0

"""Connections that wait for a session."""

import itertools
from concurrent import futures
from unittest import mock

import pytest

from fpgapool.agent.child import port as ports
from fpgapool.agent.worker import desk as desks
from fpgapool.common.channels import channel

pytestmark = pytest.mark.security


def test_few_connections_wait_for_a_slow_core():
    desk = desks.SessionServer(
        mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock()
    )
    hello = mock.Mock(transport="stream", return_secret=None, link_secret=None)
    with (
        futures.ThreadPoolExecutor(2 * desks.MAX_CONNECTIONS) as threads,
        desk._opening,
    ):
        served = [
            threads.submit(desk.serve, hello, mock.Mock(), False)
            for _ in range(2 * desks.MAX_CONNECTIONS)
        ]
        ended = futures.as_completed(served)
        for one in itertools.islice(ended, desks.MAX_CONNECTIONS):
            assert isinstance(one.exception(), channel.ChannelClosed)
        assert not all(one.done() for one in served)
    # The others have waited, and are strangers.
    refused = [
        one for one in served if isinstance(one.exception(), ports.Refused)
    ]
    assert len(refused) == desks.MAX_CONNECTIONS
    assert desk._connections == 0
