# SPDX-License-Identifier: Apache-2.0

"""What needs privileges, and nothing else.

The functions here run in a small process of their own, started by
oslo.privsep, that keeps CAP_NET_ADMIN only; the agent itself needs none.
"""

#: Below this a cap would hardly let a connection live.
MIN_CAP_BYTES_PER_S = 125_000
MAX_CAP_BYTES_PER_S = 10**12
