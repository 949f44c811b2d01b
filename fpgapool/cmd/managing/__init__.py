# SPDX-License-Identifier: Apache-2.0

"""The larger commands of ``fpgapool-manage``.

* ``commands``: how commands are declared.
* ``auditing``: compares conductor, agents, database and store, and repairs.
* ``building``: compiles an OpenCL kernel and registers the package.
* ``devices``: checks and measures the boards of a host, with ``trials``, a
  process that runs a driver as a worker does.
* ``exporting``: writes kept sessions for ``fpgapool-sim advise``.
* ``hosts``: a host's key and its RabbitMQ user.

Services import none of these modules.
"""
