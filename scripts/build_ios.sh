#!/bin/sh
# IOS_ARCH=arm64 ./scripts/build_ios.sh               a static library for devices: build_ios/install/{lib,include}
# IOS_PLATFORM=SIMULATOR ./scripts/build_ios.sh       for simulators; both of their processors, unless IOS_ARCH names one
# Beside it lies build_ios/Penlight.xcframework. Also understood: SELECTED_OP_LIST, BUILD_ROOT, MAX_JOBS.
. "$(dirname "$0")/penlight_build.sh"

[ $# = 0 ] || note "$*: these say nothing to this build, which has no such options"
case "${IOS_PLATFORM:-OS}-${IOS_ARCH:-}" in
  OS- | OS-arm64) set -- --target ios-arm64 ;;
  SIMULATOR-) set -- --target ios-simulator-arm64 --target ios-simulator-x86_64 ;;
  SIMULATOR-arm64 | SIMULATOR-x86_64) set -- --target "ios-simulator-$IOS_ARCH" ;;
  OS-* | SIMULATOR-*) stop "IOS_ARCH: expected arm64 (or x86_64, for simulators), got '$IOS_ARCH'" ;;
  *) stop "IOS_PLATFORM: expected OS or SIMULATOR, got '$IOS_PLATFORM'" ;;
esac

made="${BUILD_ROOT:-$root/build_ios}"
build "$made" "$@"
install_into "$made/install" "$(echo "$made"/Penlight.xcframework/ios-*/Penlight.framework/Penlight)" "$made/include"
mv "$made/install/lib/Penlight" "$made/install/lib/libpenlight.a"
cp "$made/cpp/penlight_library.h" "$made/install/include/" # what this very library holds
