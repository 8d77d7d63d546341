#!/usr/bin/env bash
# Virtual environments of Python, beside the build outputs. Sourced: the function that makes one, in the folder $target. Run: makes all that the
# tests need, so that they do not wait for packages: tests/environments.sh

# A virtual environment with the packages of a file, made anew when the file changes: environment NAME FILE
environment() {
  if ! cmp -s "$2" "$target/$1/installed.txt"; then
    rm -rf "${target:?}/$1"
    python3 -m venv "$target/$1"
    "$target/$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"
    cp "$2" "$target/$1/installed.txt"
  fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  cd "$(dirname "$0")"
  target="${CARGO_TARGET_DIR:-$PWD/../target}"
  environment python-tools python/tools.txt
  environment python-venv python/requirements.txt
  environment python-oldest python/oldest.txt
  environment docs-venv ../src/docs/requirements.txt
  environment docs-sgkit docs/sgkit.txt
  environment clients-venv clients/requirements.txt
fi
