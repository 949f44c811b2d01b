# SPDX-License-Identifier: Apache-2.0

"""The acts: files encrypted, strategies compared, groups that grow."""
