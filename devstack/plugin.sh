#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Called by DevStack with the phase that it is in; lib/fpgapool does the work.

_XTRACE_FPGAPOOL_PLUGIN=$(set +o | grep xtrace)
set +o xtrace

# shellcheck source=devstack/lib/fpgapool
source "$FPGAPOOL_PLUGIN_DIR/lib/fpgapool"

case "$1${2:+ $2}" in
    "stack install")
        # Nova's scheduler imports our classes.
        if is_fpgapool_enabled || has_fpgapool_scheduler; then
            echo_summary "Installing fpgapool"
            install_fpgapool
        fi
        ;;
    "stack post-config")
        if is_fpgapool_enabled; then
            echo_summary "Configuring fpgapool"
            configure_fpgapool
            create_fpgapool_accounts
            init_fpgapool
        fi
        # Nodes without any of our services can hold Nova's.
        configure_fpgapool_nova
        ;;
    "stack extra")
        if is_fpgapool_enabled; then
            echo_summary "Starting fpgapool"
            start_fpgapool
        fi
        create_fpgapool_flavor
        ;;
    "unstack")
        stop_fpgapool
        ;;
    "clean")
        cleanup_fpgapool
        ;;
esac

$_XTRACE_FPGAPOOL_PLUGIN
