# SPDX-License-Identifier: Apache-2.0

"""Node labels of Hadoop YARN that say where accelerators are."""
