# SPDX-License-Identifier: Apache-2.0

"""Sphinx settings of the release notes."""

extensions = ["openstackdocstheme", "reno.sphinxext"]
project = "fpgapool release notes"
copyright = "the fpgapool contributors"
root_doc = "index"
html_theme = "openstackdocs"
pygments_style = "native"

openstackdocs_pdf_link = False
openstackdocs_auto_name = False
