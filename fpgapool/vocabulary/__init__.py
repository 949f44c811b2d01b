# SPDX-License-Identifier: Apache-2.0

"""The words that all packages share.

``codes`` and ``states`` are the stable values; ``fields`` describes resources,
each of which has its members in ``session``, ``group``, ``inventory``,
``library`` or ``accounting``; ``names``, ``formats``, ``platforms``,
``arrays`` and ``capacity`` are about accelerators; ``rules`` checks requests,
``shapes`` any document. It imports nothing of fpgapool, so that every package
may import it, and does no I/O.
"""
