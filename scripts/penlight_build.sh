# Read by the scripts beside it, which PyTorch's documents call: what their environment variables say, as options of `penlight build`.
# Plain sh, since the documents say `sh ./scripts/…`.
set -eu
root="$(cd "$(dirname "$0")/.." && pwd)"

stop() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

note() { echo "$(basename "$0"): $*" >&2; }

# is_on VALUE: as cmake reads it
is_on() {
  case "$1" in 1 | ON | on | On | YES | yes | TRUE | True | true | Y | y) return 0 ;; *) return 1 ;; esac
}

# build OUT OPTION…: with the operators of SELECTED_OP_LIST, else with everything
build() {
  out="$1"
  shift
  if [ -n "${SELECTED_OP_LIST:-}" ]; then
    [ -f "$SELECTED_OP_LIST" ] || stop "SELECTED_OP_LIST=$SELECTED_OP_LIST: there is no such file. \`penlight trace\` writes one"
    set -- --ops "$SELECTED_OP_LIST" "$@"
  else
    ! is_on "${TRACING_BASED:-0}" || note "TRACING_BASED=1 says how SELECTED_OP_LIST came about, which is not set: everything is built"
    set -- --all "$@"
  fi
  [ "${BUILD_LITE_INTERPRETER:-1}" != 0 ] || note "BUILD_LITE_INTERPRETER=0: there is one runtime, which runs what both of PyTorch's did"
  if is_on "${USE_VULKAN:-0}"; then set -- "$@" --backends cpu,vulkan; fi
  ! is_on "${USE_PYTORCH_METAL:-0}" || note "USE_PYTORCH_METAL=1: there is no Metal yet: the library runs models on the CPU"
  ! is_on "${USE_COREML_DELEGATE:-0}" || note "USE_COREML_DELEGATE=1: there is no Core ML here: the library runs models on the CPU"
  if [ -n "${ANDROID_NDK:-}" ]; then export ANDROID_NDK_HOME="${ANDROID_NDK_HOME:-$ANDROID_NDK}"; fi
  if [ -n "${MAX_JOBS:-}" ]; then set -- "$@" --jobs "$MAX_JOBS"; fi
  python -c 'import click, rich, ziglang' 2>/dev/null || stop "the compiler is not installed: ./dev setup, or pip install 'penlight[build]'"
  python -m penlight build "$@" -o "$out" || exit 1
}

# The environment of this checkout, else whatever Python has Penlight.
python() {
  if [ -x "$root/.venv/bin/python" ]; then
    PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" "$root/.venv/bin/python" "$@"
  else
    PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" python3 "$@"
  fi
}

# target_of ABI: as `penlight build` calls it
target_of() {
  case "$1" in
    arm64-v8a) echo android-arm64 ;;
    armeabi-v7a | "armeabi-v7a with NEON") echo android-armv7 ;;
    x86 | x86_64) echo "android-$1" ;;
    *) stop "expected an ABI of Android (arm64-v8a, armeabi-v7a, x86, x86_64), got '$1'" ;;
  esac
}

# install_into FOLDER LIBRARY HEADERS: as `make install` would, with PyTorch's names for C++ beside ours
install_into() {
  rm -rf "$1/lib" "$1/include"
  mkdir -p "$1/lib"
  cp "$2" "$1/lib/"
  cp -R "$3" "$1/include"
  python -c '
import sys
from pathlib import Path
from penlight.build.package import copy_headers, torch_headers
copy_headers(torch_headers(), Path(sys.argv[1]))' "$1/include"
  echo "Installation completed. The library and headers are in $1"
}
