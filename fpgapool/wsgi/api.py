# SPDX-License-Identifier: Apache-2.0

"""The entry point for web servers: ``fpgapool.wsgi.api:application``."""

from fpgapool.api import app

application = app.load()
