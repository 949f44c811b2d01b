# SPDX-License-Identifier: Apache-2.0

"""Several conductors: leaders that die under load, and audits."""
