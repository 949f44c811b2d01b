# SPDX-License-Identifier: Apache-2.0

"""Deployment with other tools: the chart, the role and the collection."""
