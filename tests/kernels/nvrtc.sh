#!/usr/bin/env bash
# The kernels through NVRTC, which needs no device: fetched from PyPI into the user's cache, once, and run by nvrtc.py. Says
# "NOT RUN" and why where python3, pip or the package index is missing.   tests/kernels/nvrtc.sh
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
# Pinned, so that what passes here does not depend on the day: the oldest of CUDA 13, and the newest of CUDA 12.
packages=(nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-nvrtc-cu12==12.9.86)
cache="${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/datafusion-vcz/nvrtc"

if ! command -v python3 >/dev/null; then
  echo "NOT RUN: there is no python3"
  exit 0
fi
for package in "${packages[@]}"; do
  folder="$cache/$package"
  if [[ ! -f "$folder/complete" ]]; then
    mkdir -p "$cache"
    partial="$(mktemp -d "$cache/partial.XXXXXX")"
    # One folder each: two versions do not mix, and nothing of the system's Python is touched.
    if ! python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$partial" "$package" >"$partial/log" 2>&1; then
      echo "NOT RUN: pip could not install $package:"
      tail -n 3 "$partial/log"
      rm -rf "$partial"
      continue
    fi
    touch "$partial/complete"
    rm -rf "$folder"
    mv "$partial" "$folder"
  fi
  python3 "$here/nvrtc.py" "$folder"
done
