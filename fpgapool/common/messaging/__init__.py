# SPDX-License-Identifier: Apache-2.0

"""Messages between the pool's services, over oslo.messaging.

``rpc`` has clients and servers, ``signing`` signs messages, ``codec`` encodes
them as JSON, and ``context`` describes callers of the REST API. The RPC
methods themselves are defined in :mod:`fpgapool.rpcapi`.
"""
