# SPDX-License-Identifier: Apache-2.0

"""The slots of a host, as their agent knows them. Pure: no I/O, no clock.

``table``
    All slots: commands and events come in as method calls, effects come out.
``slot``
    One slot: its assignment, and the status that its worker reports.
``orders``
    The effects.

:mod:`fpgapool.agent.service` carries out the effects. The loop's thread owns
the table; nothing else changes it.
"""
