# SPDX-License-Identifier: Apache-2.0

"""The tutorials of the documentation, run as they stand there."""
