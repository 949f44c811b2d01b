# SPDX-License-Identifier: Apache-2.0

"""The live page: static files that call the REST API like any client."""
