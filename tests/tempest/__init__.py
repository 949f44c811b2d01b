# SPDX-License-Identifier: Apache-2.0

"""The acceptance test of operators, against a pool beside a real Nova."""
