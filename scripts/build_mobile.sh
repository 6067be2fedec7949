#!/bin/sh
# ./scripts/build_mobile.sh      the library of a phone for this machine, to try things with: build_mobile/install/{lib,include}
# Also understood: SELECTED_OP_LIST, BUILD_ROOT, MAX_JOBS.
. "$(dirname "$0")/penlight_build.sh"

[ $# = 0 ] || note "$*: these say nothing to this build, which has no such options"
made="${BUILD_ROOT:-$root/build_mobile}"
build "$made" --target host
set -- "$made"/host/libpenlight.so "$made"/host/libpenlight.dylib
[ -e "$1" ] || shift
install_into "$made/install" "$1" "$made/include"
