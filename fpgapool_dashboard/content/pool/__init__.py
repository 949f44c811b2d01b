# SPDX-License-Identifier: Apache-2.0

"""The pool for a project: accelerators, slots, limits and usage."""
