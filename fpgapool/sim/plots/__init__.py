# SPDX-License-Identifier: Apache-2.0

"""Pictures of schedules. matplotlib is loaded when one is drawn.

``pictures`` draws those of ``fpgapool-sim run``. ``timeline`` and ``overview``
show the slots over time, on the axes of ``schedule``; ``utilisation`` draws
what ``observation`` has recorded. All of them share ``style``.
"""

from fpgapool.sim.plots.completion import draw_completions
from fpgapool.sim.plots.groups import draw_groups
from fpgapool.sim.plots.overview import draw_overview
from fpgapool.sim.plots.schedule import SlotName
from fpgapool.sim.plots.timeline import draw_timeline
from fpgapool.sim.plots.utilisation import draw_utilisation

__all__ = [
    "SlotName",
    "draw_completions",
    "draw_groups",
    "draw_overview",
    "draw_timeline",
    "draw_utilisation",
]
