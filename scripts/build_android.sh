#!/bin/sh
# ANDROID_ABI=arm64-v8a ./scripts/build_android.sh                        a library: build_android/install/{lib,include}
# ANDROID_ABI=arm64-v8a ./scripts/build_android.sh -DBUILD_BINARY=ON      and build_android/bin/speed_benchmark_torch
# Also understood: SELECTED_OP_LIST, BUILD_ROOT, BUILD_MOBILE_BENCHMARK, ANDROID_NDK, MAX_JOBS.
. "$(dirname "$0")/penlight_build.sh"

binary="${BUILD_MOBILE_BENCHMARK:-0}"
for argument in "$@"; do
  case "$argument" in
    -DBUILD_BINARY=* | -DBUILD_MOBILE_BENCHMARK=*) binary="${argument#*=}" ;;
    -D*) note "$argument says nothing to this build, which has no such option" ;;
    *) stop "expected options of cmake such as -DBUILD_BINARY=ON, got '$argument'" ;;
  esac
done
abi="${ANDROID_ABI:-armeabi-v7a}"
abi="${abi%% *}" # "armeabi-v7a with NEON"
target="$(target_of "$abi")"

made="${BUILD_ROOT:-$root/build_android}"
build "$made" --target "$target"
install_into "$made/install" "$made/$target/libpenlight.so" "$made/include"
if is_on "$binary"; then
  ! is_on "${USE_VULKAN:-0}" || note "the benchmark program is linked statically and runs on the CPU; the library has Vulkan"
  program="$(python -c 'import sys; from penlight.build.benchmark import benchmark_binary; print(benchmark_binary(sys.argv[1]))' "$abi")"
  mkdir -p "$made/bin"
  cp "$program" "$made/bin/speed_benchmark_torch"
  echo "The benchmark program is $made/bin/speed_benchmark_torch"
fi
