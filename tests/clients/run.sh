#!/usr/bin/env bash
# The tests of `vcz serve` with real clients against the real server, of its statistics against those of scikit-allel, tskit,
# moments, plink2 and vcftools, and of the stores that `vcz sql` writes with zarr-python, xarray, sgkit, vcztools and bio2zarr:
# tests/clients/run.sh [pytest's arguments].
# VCZ is the program to test (the one that `cargo test` has built, otherwise); clients are installed from PyPI into a folder
# beside the build outputs. Fails if they cannot be installed; moments, plink2 and vcftools may be absent.
set -euo pipefail
cd "$(dirname "$0")"
target="${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}"
export VCZ="${VCZ:-$target/debug/vcz}"
if [ ! -x "$VCZ" ]; then
  echo "there is no program '$VCZ': run cargo build first, or say where it is in VCZ" >&2
  exit 1
fi
# shellcheck source=tests/environments.sh
. ../environments.sh
environment clients-venv requirements.txt
venv="$target/clients-venv"
# There are wheels of moments for few versions of Python.
moments=(moments-popgen==1.6.1 h5py==3.16.0)
if [ "$(cat "$venv/moments.txt" 2>/dev/null)" != "${moments[*]}" ]; then
  if "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r requirements.txt "${moments[@]}"; then
    echo "${moments[*]}" >"$venv/moments.txt"
  else
    echo "NOT RUN: moments cannot be installed, so moments of linkage disequilibrium are not compared with its" >&2
  fi
fi
# sgkit needs an older zarr, and so an environment of its own: that of tests/docs/run.sh.
environment docs-sgkit ../docs/sgkit.txt
export CLIENTS_SGKIT_PYTHON="$target/docs-sgkit/bin/python"
# plink2 and vcftools: those of this machine, otherwise Debian's packages and what they need, unpacked beside the build outputs.
programs="$target/clients-programs"
unpack() {
  local packages
  if ! packages="$(apt-get install --simulate --no-install-recommends "$@" 2>/dev/null)"; then
    if [ "$(id -u)" = 0 ]; then timeout 120 apt-get update -qq; fi
    packages="$(apt-get install --simulate --no-install-recommends "$@")" || return
  fi
  rm -rf "$programs"
  mkdir -p "$programs"
  # shellcheck disable=SC2046
  (cd "$programs" && timeout 300 apt-get download -qq -o APT::Sandbox::User=root $(sed -n 's/^Inst \([^ ]*\).*/\1/p' <<<"$packages")) || return
  for package in "$programs"/*.deb; do
    dpkg-deb -x "$package" "$programs" || return
    rm "$package"
  done
}
absent=()
for program in plink2 vcftools; do
  if ! command -v "$program" >/dev/null && [ ! -x "$programs/usr/bin/$program" ]; then absent+=("$program"); fi
done
if [ ${#absent[@]} -gt 0 ] && ! { command -v apt-get >/dev/null && unpack plink2 vcftools; }; then
  echo "NOT RUN: there is no ${absent[*]}, and no package to unpack, so relatedness and linkage are not compared with theirs" >&2
fi
if [ -d "$programs" ]; then
  export PATH="$PATH:$programs/usr/bin"
  CLIENTS_LIBRARIES="$(find "$programs" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)"
  export CLIENTS_LIBRARIES
fi
# Azurite, the emulator of Azure's object store, is a Node package.
azurite="azurite@3.35.0"
if command -v npm >/dev/null; then
  if [ "$(cat "$target/azurite/installed.txt" 2>/dev/null)" != "$azurite" ]; then
    npm install --silent --no-audit --no-fund --prefix "$target/azurite" "$azurite"
    echo "$azurite" >"$target/azurite/installed.txt"
  fi
  export AZURITE="$target/azurite/node_modules/.bin/azurite-blob"
else
  echo "NOT RUN: there is no npm to install $azurite with, so stores in Azure are not tested" >&2
fi
# The library is tested through the program of tests/it, which `cargo test` has built, too.
if [ -z "${CLIENTS_IT:-}" ] && command -v cargo >/dev/null; then
  CLIENTS_IT="$(cd ../.. && cargo test --quiet --no-run --test it --message-format json | grep '"name":"it"' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)" ||
    echo "NOT RUN: tests/it cannot be built, so the library is not tested with emulators of object stores" >&2
fi
if [ -n "${CLIENTS_IT:-}" ]; then export CLIENTS_IT; fi
run() { "$venv/bin/python" -m pytest -p no:cacheprovider -q -ra --durations=5 "$@"; }
if [ $# -gt 0 ]; then
  run "$@"
  exit
fi
# Five minutes of churn, beside the tests without limits on times or memory. All are run whatever fails.
failed=0
churn="$(mktemp)"
VCZ_CHURN_SECONDS=300 nice -n 5 "$venv/bin/python" -m pytest -p no:cacheprovider -q -s test_churn.py >"$churn" 2>&1 &
churning=$!
trap 'kill "$churning" 2>/dev/null || true; rm -f "$churn"' EXIT
run -n 2 --dist loadfile -m "not alone" --ignore test_churn.py || failed=1
wait "$churning" || failed=1
trap 'rm -f "$churn"' EXIT
cat "$churn"
run -m alone || failed=1
exit "$failed"
