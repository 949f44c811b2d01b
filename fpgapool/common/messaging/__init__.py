# SPDX-License-Identifier: Apache-2.0

"""Messages between the services of the pool, over oslo.messaging.

``rpc`` has clients and servers, ``signing`` the signatures of messages,
``codec`` their JSON, ``context`` the callers of the REST API. The methods
themselves are in :mod:`fpgapool.rpcapi`.
"""
