# SPDX-License-Identifier: Apache-2.0

"""Attacks by code that runs in a process of the pool.

They need only Python and the C library. None of them harms the machine: what
they change, they change back, and what could harm is called with arguments
that only fail after the check of permissions.
"""

from tests.walls.attacks import files
from tests.walls.attacks import ipc
from tests.walls.attacks import kernel
from tests.walls.attacks import limits
from tests.walls.attacks import mounts
from tests.walls.attacks import network
from tests.walls.attacks import others
from tests.walls.attacks import places
from tests.walls.attacks import rights
from tests.walls.attacks.registry import ATTACKS
from tests.walls.attacks.registry import BOUNDED
from tests.walls.attacks.registry import REFUSED
from tests.walls.attacks.registry import Attack
from tests.walls.attacks.registry import outcome

__all__ = [
    "ATTACKS",
    "BOUNDED",
    "REFUSED",
    "Attack",
    "files",
    "ipc",
    "kernel",
    "limits",
    "mounts",
    "network",
    "others",
    "outcome",
    "places",
    "rights",
]
