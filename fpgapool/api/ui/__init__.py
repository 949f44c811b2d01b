# SPDX-License-Identifier: Apache-2.0

"""The live page: static files, which use the REST API as any client does."""
