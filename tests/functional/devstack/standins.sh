#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Stand-ins for what a plugin gets from DevStack. Each one writes its name and
# arguments to $CALLS; those for INI files do their work, too. Nothing here
# touches the machine: "sudo" acts below $SANDBOX only.
#
# Sourced with ENABLED_SERVICES, SANDBOX and CALLS set.

# shellcheck disable=SC2034,SC2154

DEST=$SANDBOX/opt
DATA_DIR=$DEST/data
SYSTEMD_DIR=$SANDBOX/systemd
SYSTEMCTL="record systemctl"
NOVA_CONF_DIR=$SANDBOX/nova
NOVA_CONF=$NOVA_CONF_DIR/nova.conf
NOVA_STATE_PATH=$DATA_DIR/nova
NOVA_FILTERS="ComputeFilter,ImagePropertiesFilter"

STACK_USER=stack
HOST_IP=192.0.2.11
SERVICE_HOST=${SERVICE_HOST:-192.0.2.10}
SERVICE_PROTOCOL=${SERVICE_PROTOCOL:-http}
SERVICE_TIMEOUT=60
REGION_NAME=RegionOne
SERVICE_PASSWORD=pw
SERVICE_PROJECT_NAME=service
SERVICE_DOMAIN_NAME=Default
VIRT_DRIVER=${VIRT_DRIVER:-libvirt}
HOSTNAME=node
GLOBAL_VENV=${GLOBAL_VENV:-True}
ENABLE_DEBUG_LOG_LEVEL=True
CURL_GET="curl -g"
SSL_BUNDLE_FILE=$DATA_DIR/ca-bundle.pem
DATABASE_BACKENDS="mysql postgresql"
DATABASE_TYPE=mysql

# record() - note a call, with its arguments as a shell would read them
function record {
    local words
    printf -v words '%q ' "$@"
    echo "${words% }" >>"$CALLS"
}

function _define_recorded {
    local name
    for name in "$@"; do
        eval "function $name { record $name \"\$@\"; }"
    done
}

_define_recorded async_wait create_service_user define_plugin echo_summary \
    get_or_add_user_project_role get_or_create_endpoint get_or_create_role \
    get_or_create_service recreate_database run_process setup_develop \
    stop_process test_with_retry

# What needs an answer
# --------------------

function trueorfalse {
    local value=${!2}
    case "${value:-$1}" in
        1|[yY]*|[tT]*) echo True ;;
        *) echo False ;;
    esac
}

function enable_service {
    local name
    for name in "$@"; do
        if [[ ",$DISABLED_SERVICES," != *",$name,"* ]]; then
            ENABLED_SERVICES+=",$name"
        fi
    done
}

function is_service_enabled {
    local name
    for name in "$@"; do
        if [[ ",$ENABLED_SERVICES," == *",$name,"* ]]; then
            return 0
        fi
        if [[ "$name" == "nova" && ",$ENABLED_SERVICES" == *",n-"* ]]; then
            return 0
        fi
    done
    return 1
}

function get_python_exec_prefix {
    echo "$SANDBOX/bin"
}

function apache_site_config_for {
    echo "$SANDBOX/apache/$1.conf"
}

function database_connection_url {
    echo "mysql+pymysql://root:pw@127.0.0.1/$1?charset=utf8&plugin=dbcounter"
}

function generate_hex_string {
    printf 'ab%.0s' $(seq "$1")
}

function openstack {
    record openstack "$@"
    case "$*" in
        *"flavor show"*) return "${FLAVOR_IS_THERE:-1}" ;;
        *"project show"*) echo 0123456789abcdef0123456789abcdef ;;
    esac
}

# INI files
# ---------

# _ini_values() - leave the values of an option in $values
function _ini_values {
    local file=$1 section=$2 option=$3 line inside=0
    values=()
    while IFS= read -r line; do
        if [[ "$line" == "["* ]]; then
            inside=0
            [[ "$line" != "[$section]" ]] || inside=1
        elif (( inside )) && [[ "$line" == "$option = "* ]]; then
            values+=("${line#"$option = "}")
        fi
    done <"$file"
}

function iniget {
    local values
    _ini_values "$@"
    echo "${values[@]: -1}"
}

function iniget_multiline {
    local values
    _ini_values "$@"
    echo "${values[*]-}"
}

function iniset_multiline {
    local file=$1 section=$2 option=$3 line inside=0 found=0
    shift 3
    local added=("${@/#/$option = }")
    local lines=()
    if [[ -e "$file" ]]; then
        mapfile -t lines <"$file"
    fi
    {
        for line in "${lines[@]}"; do
            if [[ "$line" == "["* ]]; then
                inside=0
                [[ "$line" != "[$section]" ]] || inside=1
            elif (( inside )) && [[ "$line" == "$option = "* ]]; then
                continue
            fi
            echo "$line"
            if [[ "$line" == "[$section]" ]]; then
                found=1
                printf '%s\n' "${added[@]}"
            fi
        done
        if (( ! found )); then
            printf '\n[%s]\n' "$section"
            printf '%s\n' "${added[@]}"
        fi
    } >"$file"
}

function iniset {
    record iniset "$@"
    iniset_multiline "$@"
}

function inidelete {
    record inidelete "$@"
    sed -i "/^\\[$2\\]\$/,/^\\[/ { /^$3 = /d }" "$1"
}

function setup_logging {
    record setup_logging "$@"
    iniset_multiline "$1" DEFAULT logging_exception_prefix "ERROR %(name)s"
}

function iniset_rpc_backend {
    record iniset_rpc_backend "$@"
    iniset_multiline "$2" DEFAULT transport_url \
        "rabbit://u:pw@192.0.2.10:5672/"
}

function configure_keystoneauth {
    record configure_keystoneauth "$@"
    iniset_multiline "$1" "$3" auth_type password
    iniset_multiline "$1" "$3" interface public
    iniset_multiline "$1" "$3" auth_url http://192.0.2.10/identity
    iniset_multiline "$1" "$3" username "$2"
    iniset_multiline "$1" "$3" password pw
    iniset_multiline "$1" "$3" user_domain_name Default
    iniset_multiline "$1" "$3" project_name service
    iniset_multiline "$1" "$3" project_domain_name Default
}

function configure_keystone_authtoken_middleware {
    record configure_keystone_authtoken_middleware "$@"
    configure_keystoneauth "$1" "$2" keystone_authtoken
    iniset_multiline "$1" keystone_authtoken memcached_servers 127.0.0.1:11211
}

# It adds to the site that is there, as DevStack's does.
function write_uwsgi_config {
    record write_uwsgi_config "$@"
    rm -f "$1"
    iniset_multiline "$1" uwsgi module "$2"
    iniset_multiline "$1" uwsgi socket "$SANDBOX/uwsgi/$5.socket"
    iniset_multiline "$1" uwsgi chmod-socket 666
    echo "ProxyPass $3" >>"$(apache_site_config_for "$5")"
}

function remove_uwsgi_config {
    record remove_uwsgi_config "$@"
    rm -rf "$1"
}

# Root
# ----

function _is_inside {
    [[ "$1" == "$SANDBOX"/* ]]
}

function sudo {
    record sudo "$@"
    local word
    case "$1" in
        rm)
            for word in "${@:2}"; do
                if _is_inside "$word"; then
                    rm -rf "$word"
                fi
            done
            ;;
        test)
            _is_inside "$3" && "$@"
            ;;
        chmod|mkdir)
            _is_inside "${@: -1}" && "$@"
            ;;
        install)
            # The owner is for root to give.
            _is_inside "${@: -1}" && mkdir -p "${@: -1}"
            ;;
        tee)
            _is_inside "$2" && command tee "$2"
            ;;
        *python3)
            cat >/dev/null
            ;;
    esac
}
