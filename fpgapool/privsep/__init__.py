# SPDX-License-Identifier: Apache-2.0

"""The code that needs privileges.

oslo.privsep runs these functions in a small separate process, which has only
CAP_NET_ADMIN; the agent itself needs no privileges.
"""

#: Minimum of a cap: a lower one would barely keep connections alive.
MIN_CAP_BYTES_PER_S = 125_000
MAX_CAP_BYTES_PER_S = 10**12
