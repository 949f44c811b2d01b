# SPDX-License-Identifier: Apache-2.0

"""Nova plug-ins that place instances near FPGA boards.

nova-scheduler loads the filter and the weigher, and nova-api loads the
validator of extra specs. This package imports nova, keystoneauth and oslo
libraries but not fpgapool, so these services need no other part of this
project.
"""
