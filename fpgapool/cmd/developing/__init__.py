# SPDX-License-Identifier: Apache-2.0

"""What ``fpgapool-dev`` does for developers of accelerators.

``making`` writes skeletons, ``trying`` runs an accelerator in a pool of its
own. It treats cores and kernels alike, as ``subjects``; ``answers`` reads what
they must compute, and ``checks`` compares.
"""
