# SPDX-License-Identifier: Apache-2.0

"""The vocabulary that all packages share.

``codes`` and ``states`` are the stable values. ``fields`` can describe any
resource; ``session``, ``group``, ``inventory``, ``library`` and ``accounting``
contain the descriptions. ``names``, ``formats``, ``platforms``, ``arrays`` and
``capacity`` are about accelerators. ``rules`` checks requests, and ``shapes``
checks any document. The package does no I/O and imports nothing else from
fpgapool, so every package can import it.
"""
