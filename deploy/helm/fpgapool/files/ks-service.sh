# SPDX-License-Identifier: Apache-2.0

# The pool's entry in the catalog.

set -eu
openstack service show fpgapool >/dev/null 2>&1 ||
    openstack service create --name fpgapool \
        --description "Pool of FPGA accelerators" fpgapool
