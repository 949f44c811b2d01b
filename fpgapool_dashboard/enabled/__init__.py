# SPDX-License-Identifier: Apache-2.0

"""What operators copy to ``openstack_dashboard/local/enabled``."""
