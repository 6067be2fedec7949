#!/bin/sh
# BUILD_LITE_INTERPRETER=1 ./scripts/build_pytorch_android.sh [ABI,ABI…]      AARs, for all four ABIs of Android unless some are named
# SELECTED_OP_LIST=ops.yaml TRACING_BASED=1 ./scripts/build_pytorch_android.sh x86      with what a traced model needs
# They lie where PyTorch's build put them: android/pytorch_android/build/outputs/aar/pytorch_android-release.aar, and
# android/pytorch_android_torchvision/build/outputs/aar/pytorch_android_torchvision-release.aar
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
rm -rf "$made/penlight/maven" # archives of another version
build "$made/penlight" "$@" --aar
for name in pytorch_android pytorch_android_torchvision; do
  aar="$root/android/$name/build/outputs/aar/$name-release.aar"
  mkdir -p "$(dirname "$aar")"
  cp "$made/penlight/maven/org/pytorch/${name}_lite"/*/*.aar "$aar"
done
echo "BUILD SUCCESSFUL"
ls -lh "$root"/android/*/build/outputs/aar/*-release.aar
