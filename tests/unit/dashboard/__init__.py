# SPDX-License-Identifier: Apache-2.0

"""What the panels of Horizon decide without Horizon."""
