# SPDX-License-Identifier: Apache-2.0

"""A whole pool of real processes for system tests."""
