# SPDX-License-Identifier: Apache-2.0

"""The panels: a package for each, with what they share beside them."""
