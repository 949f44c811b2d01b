# SPDX-License-Identifier: Apache-2.0

"""Messages between the services of the pool, over oslo.messaging.

``rpc`` has clients and servers, ``signing`` the signatures of messages,
``context`` what each carries about its sender, ``codec`` their JSON. The
methods themselves are in :mod:`fpgapool.rpcapi`.
"""
