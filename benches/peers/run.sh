#!/usr/bin/env bash
# Installs the peers, simulates the stores, and prints both tables: benches/peers/run.sh VCZ FOLDER [ROUNDS]
# VCZ: an optimised binary. FOLDER keeps the environments and stores (about 1 GB). Run it on a machine that does nothing else.
set -euo pipefail
vcz=$(realpath "${1:?the vcz binary}")
work=$(realpath -m "${2:?a folder for environments and stores}")
rounds=${3:-7}
here=$(dirname "$(realpath "$0")")
mkdir -p "$work/stores"

for environment in "venv requirements.txt" "venv-sgkit requirements-sgkit.txt"; do
  read -r name requirements <<< "$environment"
  [ -x "$work/$name/bin/pip" ] || python3 -m venv "$work/$name"
  "$work/$name/bin/pip" install --quiet --disable-pip-version-check -r "$here/$requirements"
done
for tool in bcftools plink2; do
  command -v "$tool" > /dev/null && continue
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get install -y -q "$tool" > "$work/apt.log" 2>&1; then
    continue
  fi
  echo "$tool IS NOT INSTALLED and could not be: the comparison goes on without it (Debian and Ubuntu have it as $tool)" >&2
done

cd "$here"
status=0
"$work/venv/bin/python" targets.py --vcz "$vcz" --stores "$work/stores" --rounds "$rounds" --json "$work/targets.json" || status=$?
echo
"$work/venv/bin/python" compare.py --vcz "$vcz" --stores "$work/stores" --rounds "$rounds" --json "$work/compare.json" \
  --sgkit-python "$work/venv-sgkit/bin/python"
exit "$status"
