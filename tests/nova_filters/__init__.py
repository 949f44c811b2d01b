# SPDX-License-Identifier: Apache-2.0

"""Tests of fpgapool_nova_filters, beside Nova: in .venv-openstack."""
