# SPDX-License-Identifier: Apache-2.0

"""The acts of the demo."""
