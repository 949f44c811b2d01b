# SPDX-License-Identifier: Apache-2.0

# The service's user, and the roles by which others may use the pool.

set -eu
openstack project create --or-show "$SERVICE_PROJECT" >/dev/null
openstack user create --or-show --password "$SERVICE_PASSWORD" \
    "$SERVICE_USER" >/dev/null
openstack user set --password "$SERVICE_PASSWORD" "$SERVICE_USER"
for role in $SERVICE_ROLES fpgapool:agent fpgapool:vendordata; do
    openstack role create --or-show "$role" >/dev/null
done
for role in $SERVICE_ROLES; do
    openstack role add --user "$SERVICE_USER" --project "$SERVICE_PROJECT" \
        "$role"
done
if [ -n "$NOVA_USER" ]; then
    openstack role add --user "$NOVA_USER" --project "$SERVICE_PROJECT" \
        fpgapool:vendordata
fi
