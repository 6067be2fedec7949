#!/bin/sh
# BUILD_LITE_INTERPRETER=1 ./scripts/build_pytorch_android.sh [ABI,ABI…]      an AAR, for all four ABIs of Android unless some are named
# SELECTED_OP_LIST=ops.yaml TRACING_BASED=1 ./scripts/build_pytorch_android.sh x86      with what a traced model needs
# It lies where PyTorch's build put it: android/pytorch_android/build/outputs/aar/pytorch_android-release.aar
. "$(dirname "$0")/penlight_build.sh"

[ $# -le 1 ] || stop "expected one argument, ABIs with commas between them, got $#: $*"
[ $# = 1 ] || set -- "arm64-v8a,armeabi-v7a,x86,x86_64"
abis="$1"
set --
while [ -n "$abis" ]; do
  target="$(target_of "${abis%%,*}")"
  set -- "$@" --target "$target"
  case "$abis" in *,*) abis="${abis#*,}" ;; *) abis="" ;; esac
done

made="$root/android/pytorch_android/build"
rm -rf "$made/penlight/maven" # an archive of another version
build "$made/penlight" "$@" --aar
mkdir -p "$made/outputs/aar"
cp "$made"/penlight/maven/org/pytorch/penlight/*/penlight-*.aar "$made/outputs/aar/pytorch_android-release.aar"
echo "BUILD SUCCESSFUL"
ls -lh "$made/outputs/aar/pytorch_android-release.aar"
