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

"""Who waits for an answer waits longer than the one that answers."""

from oslo_config import cfg

from fpgapool.conf import api
from fpgapool_nova_filters import conf as filters

# The API asks the database when the conductor has not answered, and a process
# may have to connect to the broker first.
MARGIN_S = 1.0


def default(options: list[cfg.Opt], name: str) -> float:
    (found,) = (one for one in options if one.name == name)
    return float(found.default)


def test_the_scheduler_waits_longer_than_the_api() -> None:
    (options,) = api.list_opts().values()
    api_s = default(options, "read_timeout_s")
    scheduler_s = default(filters.snapshot_opts, "snapshot_timeout_s")
    assert scheduler_s >= api_s + MARGIN_S
