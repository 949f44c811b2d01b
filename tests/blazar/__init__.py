# SPDX-License-Identifier: Apache-2.0

"""The plugin of Blazar, in a real Blazar with a real Keystone."""
