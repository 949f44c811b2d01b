# SPDX-License-Identifier: Apache-2.0

"""The resources of Heat, in a real engine with a real Keystone."""
