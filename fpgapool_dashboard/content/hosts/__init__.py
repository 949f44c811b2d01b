# SPDX-License-Identifier: Apache-2.0

"""The hosts of the pool, for operators."""
