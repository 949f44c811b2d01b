# SPDX-License-Identifier: Apache-2.0

"""What Blazar's plugin decides without Blazar."""
