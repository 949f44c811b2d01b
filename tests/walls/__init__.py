# SPDX-License-Identifier: Apache-2.0

"""What code in a worker, a desk or a compiler tries against its walls.

``attacks`` has what is tried. ``worker``, ``desk`` and ``compiling`` are these
processes after a tenant has got hold of them; ``site`` starts them beside a
``victim``. ``table`` writes the list in the security documentation, and ``vm``
runs all of it on another kernel.
"""
