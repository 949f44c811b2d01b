# SPDX-License-Identifier: Apache-2.0

"""The Nova that tests run asks Placement for providers of its own.

So each instance of ``tests/integration/nova``, of flavors with and without
boards, is placed with that filter at work.
"""

from nova.objects import service
from nova.scheduler import request_filter


def test_nova_asks_for_its_own_providers() -> None:
    filters = request_filter.ALL_REQUEST_FILTERS
    assert request_filter.owner_nova_filter in filters
    needed = request_filter.MIN_COMPUTE_VERSION_OWNER_TRAIT
    assert needed <= service.SERVICE_VERSION
