# SPDX-License-Identifier: Apache-2.0

"""How data and tasks move.

``base`` defines an engine. ``fluid`` moves data at steady rates, ``chunk`` in
chunks, both through pipes that ``sharing`` shares max-min fairly, with
``heaps``. ``tasks`` runs the tasks of groups, with ``queues``. ``instants``
says which times are the same. ``compiling`` compiles their inner loops.
Engines make no decisions about slots.
"""
