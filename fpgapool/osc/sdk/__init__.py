# SPDX-License-Identifier: Apache-2.0

"""The REST API as openstacksdk shows services: a proxy and resources."""
