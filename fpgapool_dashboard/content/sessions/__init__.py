# SPDX-License-Identifier: Apache-2.0

"""The sessions of a project."""
