# SPDX-License-Identifier: Apache-2.0

"""The pool in the ``openstack`` command and in openstacksdk."""
