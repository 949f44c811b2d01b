# SPDX-License-Identifier: Apache-2.0

"""Shows a pool at work with many files and few slots."""
