#!/usr/bin/env bash
# The kernels without a device: built by g++ in emulation, with sanitizers where there are some, against plain code on random
# cases; the decoder of zstd frames against libzstd, on random frames and on those of the fuzz corpora.
#     tests/kernels/run.sh [cases] [first seed]
set -euo pipefail
export ASAN_OPTIONS=detect_leaks=0  # needs ptrace, which containers forbid
here="$(cd "$(dirname "$0")" && pwd)"
build="$(mktemp -d)"
trap 'rm -rf "$build"' EXIT
flags=(-std=c++17 -O1 -g -Wall -Wextra -Wno-unknown-pragmas -I "$here/../../kernels")
sanitizers=(-fsanitize=address,undefined -fno-sanitize-recover=all)
if echo 'int main() {}' | g++ "${sanitizers[@]}" -x c++ - -o "$build/probe" 2>/dev/null && "$build/probe"; then
  flags+=("${sanitizers[@]}")
else
  echo "no sanitizers here: reads outside of blocks are not looked for"
fi
# Threads are fibers with stacks of their own, which the address sanitizer says that it does not know.
quietly() { "$@" 2> >(grep -vE "ASan doesn't fully support makecontext|ASan is ignoring requested|False positive error|sanitizers/issues/189" >&2); }

# Beside the others, which take as long together.
(
  g++ "${flags[@]}" "$here/emulated.cpp" -o "$build/emulated"
  quietly "$build/emulated" "${1:-60}" "${2:-1}"
) &
emulated=$!
trap 'wait; rm -rf "$build"' EXIT
g++ "${flags[@]}" "$here/pairs.cpp" -o "$build/pairs"
quietly "$build/pairs" "${1:-6}" "${2:-1}"
g++ "${flags[@]}" "$here/sites.cpp" -o "$build/sites"
quietly "$build/sites" "${1:-8}" "${2:-1}"

# libzstd, in the version that the program has: the sources that cargo fetched.
version="$(sed -n '/^name = "zstd-sys"$/{n;s/^version = "\(.*\)"$/\1/p}' "$here/../../Cargo.lock")"
zstd="$(ls -d "${CARGO_HOME:-${HOME:-/root}/.cargo}"/registry/src/*/"zstd-sys-$version"/zstd/lib 2>/dev/null | head -n 1)" || true
if [[ -z "$zstd" ]]; then
  echo "NOT RUN: the sources of zstd-sys $version are not there to compare the decoder of zstd frames with (cargo fetch)"
  wait "$emulated"
  exit 0
fi
mkdir "$build/libzstd"
(cd "$build/libzstd" && printf '%s\0' "$zstd"/{common,compress,decompress}/*.c | xargs -0 -P 2 -n 8 gcc -O1 -w -DZSTD_DISABLE_ASM -c)
g++ "${flags[@]}" -I "$zstd" "$here/zstd.cpp" "$build"/libzstd/*.o -o "$build/zstd"
quietly "$build/zstd" "${1:-30}" "${2:-1}" "$here"/../fuzz/corpus/{zstd_frame,zstd_decode,gpu_plan,blosc}/*
wait "$emulated"
