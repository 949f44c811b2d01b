# SPDX-License-Identifier: Apache-2.0

"""Entry points for web servers; importing one loads the configuration."""
