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
