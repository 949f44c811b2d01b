# SPDX-License-Identifier: Apache-2.0

"""The handlers of operations, which check rights and return responses."""
