# SPDX-License-Identifier: Apache-2.0

"""The REST API.

``routes`` has the whole API in one table: path, handler, schemas, policy. The
WSGI application in ``app``, the reference in ``openapi`` and
:mod:`fpgapool.policies` derive from it. A request passes the middleware in
``http`` and is checked by its ``schemas``; its handler in ``handlers`` gets a
``call``, queries ``backends`` and returns a document made with ``answers``.
``ui`` is the live page. The API only reads the database: the conductor makes
all changes.
"""
