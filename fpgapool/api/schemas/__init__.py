# SPDX-License-Identifier: Apache-2.0

"""Schemas of requests and answers, in JSON schema 2020-12."""
