# SPDX-License-Identifier: Apache-2.0

"""The handlers of operations: they check rights and make responses."""
