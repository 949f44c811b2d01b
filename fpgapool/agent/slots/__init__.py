# SPDX-License-Identifier: Apache-2.0

"""The slots of a host, as the agent sees them. Pure: no I/O, no clock.

``table``
    All slots: commands and events are method calls, which return effects.
``slot``
    One slot: its assignment, and the status that its worker reports.
``orders``
    The effects.

:mod:`fpgapool.agent.service` carries out the effects. The loop's thread owns
the table, and only this thread changes it.
"""
