# SPDX-License-Identifier: Apache-2.0

"""The REST API.

``routes`` contains the whole API in one table: paths, handlers, schemas and
policies. The WSGI application in ``app``, the reference in ``openapi`` and
:mod:`fpgapool.policies` are derived from it. A request passes through the
middleware in ``http`` and is checked against its ``schemas``. Its handler in
``handlers`` gets a ``call``, queries ``backends`` and returns a document made
with ``answers``. ``ui`` is the live page. The API only reads the database: the
conductor makes all changes.
"""
