# SPDX-License-Identifier: Apache-2.0

"""What papers model besides slots and links: adds it to the simulator.

``nodes`` has hosts with cores, as the paper on HJF; ``containers`` has
applications that share boards, as the paper on Blaze. Whoever imports this
package can simulate scenarios with them.
"""

from fpgapool.sim import models
from reproduction.models import containers
from reproduction.models import nodes

models.MODELS["cores_per_host"] = models.Model(
    "cores", nodes.check, nodes.check_strategy, nodes.run_strategy
)
models.MODELS["heartbeat_s"] = models.Model(
    "containers",
    containers.check,
    containers.check_strategy,
    containers.run,
    containers.measure,
)
