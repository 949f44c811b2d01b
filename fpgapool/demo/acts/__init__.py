# SPDX-License-Identifier: Apache-2.0

"""What the demo shows, one act after the other."""
