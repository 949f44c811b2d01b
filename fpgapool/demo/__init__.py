# SPDX-License-Identifier: Apache-2.0

"""Shows a pool at work: many files, few slots, every output checked."""
