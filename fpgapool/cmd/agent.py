# SPDX-License-Identifier: Apache-2.0

"""fpgapool-agent: serve the boards and the programs of a host."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fpgapool.agent import metrics as agent_metrics
from fpgapool.agent import service as agent_service
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.door import doorway
from fpgapool.cmd import launch
from fpgapool.common import config
from fpgapool.common import exception
from fpgapool.common import service
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.drivers import base as drivers
from fpgapool.privsep import ambient

_PROGRAM = "fpgapool-agent"


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal arrives.

    :returns: 0 after a signal, 1 after an error, 2 for invalid configuration.
    """
    try:
        conf = config.init(_PROGRAM, argv)
        settings = agent_settings.AgentSettings.from_conf(
            conf, keys=signing.host_keys(conf)
        )
    except (exception.ConfigurationError, drivers.DriverError) as error:
        return launch.failed(_PROGRAM, error, 2)
    service.raise_descriptor_limit()
    ambient.give_up()
    rpc.init(conf)
    try:
        agent = agent_service.make(settings)
        return service.Runner(conf).run(
            [agent_metrics.endpoint(conf, [agent.fill]), agent]
        )
    except exception.ConfigurationError as error:
        return launch.failed(_PROGRAM, error, 2)
    except (
        agent_service.AgentError,
        drivers.DriverError,
        doorway.FrontDoorError,
    ) as error:
        return launch.failed(_PROGRAM, error, 1)
    finally:
        rpc.cleanup()


if __name__ == "__main__":
    sys.exit(launch.guarded(_PROGRAM, main))
