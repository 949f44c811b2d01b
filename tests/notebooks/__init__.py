# SPDX-License-Identifier: Apache-2.0

"""The notebooks of the documentation, and what needs pandas."""
