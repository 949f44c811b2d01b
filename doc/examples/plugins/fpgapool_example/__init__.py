# SPDX-License-Identifier: Apache-2.0

"""Plug-ins as the documentation explains them."""
