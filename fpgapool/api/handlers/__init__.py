# SPDX-License-Identifier: Apache-2.0

"""The handlers of operations: they check rights, ask, and translate."""
