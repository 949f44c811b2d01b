# SPDX-License-Identifier: Apache-2.0

"""The REST API.

``routes`` has the whole API in one table: path, handler, schemas, policy.
``app`` makes the WSGI application of it, ``openapi`` and
:mod:`fpgapool.policies` the descriptions. A request passes ``http``, its
``schemas`` and its handler in ``handlers``, which asks ``backends`` and makes
a document with ``answers``; a handler gets a ``call``. ``ui`` is the live
page. The API reads the database and never writes to it: the conductor makes
all changes.
"""
