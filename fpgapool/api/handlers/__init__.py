# SPDX-License-Identifier: Apache-2.0

"""What each operation does: translate, and nothing else."""
