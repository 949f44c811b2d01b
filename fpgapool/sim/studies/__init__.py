# SPDX-License-Identifier: Apache-2.0

"""Long studies, to be run by hand: ``python -m fpgapool.sim.studies.NAME``."""
