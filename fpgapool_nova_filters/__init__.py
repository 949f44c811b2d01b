# SPDX-License-Identifier: Apache-2.0

"""Nova plug-ins that place instances near FPGA boards.

The scheduler loads the filter and the weigher, nova-api the validator of extra
specs. This package imports nova, keystoneauth and oslo libraries, never
fpgapool: both services need nothing else of this project.
"""
