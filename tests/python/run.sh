#!/usr/bin/env bash
# The Python package: builds the wheel with the profile and the build outputs of the tests, installs it into virtual environments beside
# them (nothing else, the newest clients, the oldest), and tests it: tests/python/run.sh [pytest's arguments].
# Fails if maturin or the clients cannot be installed.
set -euo pipefail
cd "$(dirname "$0")"
top="$(cd ../.. && pwd)"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$top/target}"
target="$CARGO_TARGET_DIR"

# shellcheck source=tests/environments.sh
. "$top/tests/environments.sh"

start=$SECONDS
environment python-tools tools.txt
# Not compressed, because it is not kept.
rm -rf "$target/wheel"
(cd "$top" && "$target/python-tools/bin/maturin" build --quiet --profile dev --compression-method stored --out "$target/wheel")
echo "the wheel was built in $((SECONDS - start)) s"
wheel=("$target"/wheel/*.whl)
install() {
  "$target/$1/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps --no-index "${wheel[0]}"
}

rm -rf "$target/python-bare"
python3 -m venv "$target/python-bare"
install python-bare
cd "$top"
PATH="$target/python-bare/bin:$PATH" "$target/python-bare/bin/python" tests/python/bare.py

environment python-venv "$top/tests/python/requirements.txt"
install python-venv
"$target/python-venv/bin/python" -m pytest -p no:cacheprovider -q -ra --durations=5 tests/python "$@"
environment python-oldest "$top/tests/python/oldest.txt"
install python-oldest
"$target/python-oldest/bin/python" -m pytest -p no:cacheprovider -q -ra tests/python/test_results.py "$@"
echo "tests/python took $((SECONDS - start)) s"
