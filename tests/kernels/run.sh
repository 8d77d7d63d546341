#!/usr/bin/env bash
# The kernels without a device: built by g++ in emulation, with sanitizers where there are some, against plain code on random
# cases.   tests/kernels/run.sh [cases] [first seed]
set -euo pipefail
export ASAN_OPTIONS=detect_leaks=0  # needs ptrace, which containers forbid
here="$(cd "$(dirname "$0")" && pwd)"
build="$(mktemp -d)"
trap 'rm -rf "$build"' EXIT
flags=(-std=c++17 -O1 -g -Wall -Wextra -Wno-unknown-pragmas -x c++ -I "$here/../../kernels")
sanitizers=(-fsanitize=address,undefined -fno-sanitize-recover=all)
if echo 'int main() {}' | g++ "${sanitizers[@]}" -x c++ - -o "$build/probe" 2>/dev/null && "$build/probe"; then
  flags+=("${sanitizers[@]}")
else
  echo "no sanitizers here: reads outside of blocks are not looked for"
fi
g++ "${flags[@]}" "$here/emulated.cpp" -o "$build/emulated"
# Threads are fibers with stacks of their own, which the address sanitizer says that it does not know.
"$build/emulated" "$@" 2> >(grep -v "ASan doesn't fully support makecontext" >&2)
