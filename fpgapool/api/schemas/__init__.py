# SPDX-License-Identifier: Apache-2.0

"""Schemas of requests and responses, in JSON Schema 2020-12."""
