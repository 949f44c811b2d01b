# SPDX-License-Identifier: Apache-2.0

"""Sphinx settings."""

extensions = [
    "openstackdocstheme",
    "oslo_config.sphinxext",
    "oslo_policy.sphinxext",
    "sphinx.ext.autodoc",
]
project = "fpgapool"
copyright = "the fpgapool contributors"
root_doc = "index"
html_theme = "openstackdocs"
pygments_style = "native"

openstackdocs_pdf_link = False
openstackdocs_auto_name = False

autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"
