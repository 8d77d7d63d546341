#!/usr/bin/env bash
# The tests of `vcz serve` with real clients against the real server, and of its statistics against those of scikit-allel and tskit:
# tests/clients/run.sh [pytest's arguments].
# VCZ is the program to test (the one that `cargo test` has built, otherwise); clients are installed from PyPI into a folder
# beside the build outputs. Fails if they cannot be installed.
set -euo pipefail
cd "$(dirname "$0")"
target="${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}"
export VCZ="${VCZ:-$target/debug/vcz}"
if [ ! -x "$VCZ" ]; then
  echo "there is no program '$VCZ': run cargo build first, or say where it is in VCZ" >&2
  exit 1
fi
venv="$target/clients-venv"
if ! cmp -s requirements.txt "$venv/installed.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt
  cp requirements.txt "$venv/installed.txt"
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
exec "$venv/bin/python" -m pytest -p no:cacheprovider -q -ra --durations=5 "$@"
