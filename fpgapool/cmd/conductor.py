# SPDX-License-Identifier: Apache-2.0

"""fpgapool-conductor: queue sessions and assign slots to them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from oslo_log import log as logging

from fpgapool.cmd import launch
from fpgapool.common import config
from fpgapool.common import exception
from fpgapool.common import service
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.conductor import metrics as conductor_metrics
from fpgapool.conductor import service as conductor_service
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)

_PROGRAM = "fpgapool-conductor"


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal arrives.

    :returns: 0 after a signal, 1 after an error, 2 for invalid configuration.
    """
    try:
        conf = config.init(_PROGRAM, argv)
        database = db_api.Database.from_conf(conf)
        runner = service.Runner(conf)
        keys = signing.pool_keys(conf)
        if keys is None:
            LOG.warning(
                "[messages] pool_key_file is not set: the conductor accepts"
                " every message on the bus without verifying who sent it"
            )
        conductor = conductor_service.Conductor(
            conf, database, runner.fail, keys
        )
        endpoint = conductor_metrics.endpoint(conf, conductor)
    except exception.ConfigurationError as error:
        return launch.failed(_PROGRAM, error, 2)
    rpc.init(conf)
    try:
        return runner.run([endpoint, conductor])
    except exception.ConfigurationError as error:
        return launch.failed(_PROGRAM, error, 2)
    finally:
        rpc.cleanup()
        database.close()


if __name__ == "__main__":
    sys.exit(launch.guarded(_PROGRAM, main))
