# SPDX-License-Identifier: Apache-2.0

"""The tests: ``api`` asks for each resource, ``scenario`` moves data."""
