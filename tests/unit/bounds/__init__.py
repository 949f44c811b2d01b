# SPDX-License-Identifier: Apache-2.0

"""How large the answers of a large pool are."""
