# SPDX-License-Identifier: Apache-2.0

"""The REST API in openstacksdk: a proxy and resources."""
