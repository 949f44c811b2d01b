# SPDX-License-Identifier: Apache-2.0

"""The panels, in a real Horizon with a real Keystone, in Chromium."""
