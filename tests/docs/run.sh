#!/usr/bin/env bash
# The documentation: builds the site (src/docs/build.py, which runs its examples and fails if a page shows another result), and tests the pages for users of
# other programs against these: tests/docs/run.sh [pytest's arguments].
# VCZ is the program (the one that `cargo test` has built, otherwise), WHEEL the Python package (the one that tests/python/run.sh has built). What is needed
# from PyPI is installed beside the build outputs, and so is the site: $CARGO_TARGET_DIR/docs-site/site/index.html.
# With UPDATE=1 the results that pages show are changed to what is computed.
set -euo pipefail
cd "$(dirname "$0")/../.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
out="$target/docs-site"
export VCZ="${VCZ:-$target/debug/vcz}"
wheel="${WHEEL:-$(ls "$target"/wheel/*.whl 2>/dev/null | head -n 1 || true)}"
if [ ! -x "$VCZ" ] || [ ! -e "$wheel" ]; then
  echo "the program '$VCZ' or the wheel '$wheel' is not there: run cargo build and tests/python/run.sh first" >&2
  exit 1
fi

# shellcheck source=tests/environments.sh
. tests/environments.sh
environment docs-venv src/docs/requirements.txt
environment docs-sgkit tests/docs/sgkit.txt
python="$target/docs-venv/bin/python"
"$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps --no-index "$wheel"

# Programs that the pages are compared with. Nothing is installed for a user who is not root.
programs="bcftools vcftools plink2"
missing=()
for program in $programs; do
  command -v "$program" >/dev/null || missing+=("$program")
done
if [ "${#missing[@]}" -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  install() { apt-get install --yes --quiet "${missing[@]}"; }
  { install || { apt-get update && install; }; } >"$target/docs-apt.log" 2>&1 || true
fi
for program in $programs pixy; do
  command -v "$program" >/dev/null || echo "NOT RUN: $program is not installed, so its page is not compared with it (that of pixy only with the values kept in tests/docs/pixy.json)" >&2
done

start=$SECONDS
# sgkit compiles its functions when they are first used: they are kept.
export NUMBA_CACHE_DIR="$target/docs-sgkit/numba" SGKIT_DISABLE_NUMBA_CACHE=0 PYTHONDONTWRITEBYTECODE=1
"$python" src/docs/build.py --vcz "$VCZ" --out "$out" ${UPDATE:+--update}
DOCS_EXAMPLE="$out/example" DOCS_SGKIT_PYTHON="$target/docs-sgkit/bin/python" \
  "$python" -m pytest -p no:cacheprovider -q -rs --durations=3 tests/docs "$@"
echo "the documentation took $((SECONDS - start)) s"
