# SPDX-License-Identifier: Apache-2.0

"""Code that needs privileges, and no other.

oslo.privsep runs these functions in a small process of their own, which keeps
CAP_NET_ADMIN only; the agent itself needs no privileges.
"""

#: A lower cap would barely keep a connection alive.
MIN_CAP_BYTES_PER_S = 125_000
MAX_CAP_BYTES_PER_S = 10**12
