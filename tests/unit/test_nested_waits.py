# SPDX-License-Identifier: Apache-2.0

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
    options = api.api_opts
    api_s = default(options, "read_timeout_s")
    scheduler_s = default(filters.snapshot_opts, "snapshot_timeout_s")
    assert scheduler_s >= api_s + MARGIN_S
