# SPDX-License-Identifier: Apache-2.0

"""What a fork server forks in tests: it does what its settings say."""
