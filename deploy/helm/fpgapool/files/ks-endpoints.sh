# SPDX-License-Identifier: Apache-2.0

# One endpoint for each interface; those that changed are corrected.

set -eu
ensure() {
    id=$(openstack endpoint list --service fpgapool --interface "$1" \
        --region "$OS_REGION_NAME" -f value -c ID)
    if [ -n "$id" ]; then
        openstack endpoint set --url "$2" "$id"
    else
        openstack endpoint create --region "$OS_REGION_NAME" \
            fpgapool "$1" "$2"
    fi
}
ensure public "$PUBLIC_URL"
ensure internal "$INTERNAL_URL"
