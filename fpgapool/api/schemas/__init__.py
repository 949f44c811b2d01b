# SPDX-License-Identifier: Apache-2.0

"""What requests and answers look like, in JSON schema 2020-12."""
