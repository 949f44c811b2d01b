# SPDX-License-Identifier: Apache-2.0

"""The strategy era: the study that compares it with wra, and its tuning."""
