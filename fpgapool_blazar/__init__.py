# SPDX-License-Identifier: Apache-2.0

"""Slots of the pool in leases of Blazar: the resource type ``fpga:slot``.

Blazar's manager loads ``plugin`` and ``monitor``; ``wishes`` decides, without
Blazar, what they ask for. They ask the pool's REST API, as everybody does.
"""
