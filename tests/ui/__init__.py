# SPDX-License-Identifier: Apache-2.0

"""The live page in a real browser."""
