#!/usr/bin/env bash
# Runs the tests of queries with every session on workers, which are processes of their own: tests/cluster/run.sh [filters of tests].
# `cargo test --no-run` has built the program and the tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
vcz="${VCZ:-$target/debug/vcz}"
folder="$(mktemp -d)"
workers=()
trap 'kill "${workers[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT

addresses=() metrics=()
for number in 1 2 3; do
  RUST_LOG=error,datafusion_vcz=info "$vcz" serve --worker --worker-partitions 2 --bind 127.0.0.1:0 --metrics-bind 127.0.0.1:0 2>"$folder/$number.log" &
  workers+=($!)
  for _ in $(seq 100); do
    ! grep -q http:// "$folder/$number.log" || break
    sleep 0.1
  done
  addresses+=("$(sed -n 's/.*worker at \([0-9.:]*\).*/\1/p' "$folder/$number.log")")
  metrics+=("$(sed -n 's|.*http://\([0-9.:]*\)/.*|\1|p' "$folder/$number.log")")
done

filters=("$@")
if [ ${#filters[@]} = 0 ]; then
  filters=(queries:: golden:: sqllogic:: laws:: windows:: partitions:: runs:: missing_data:: individuals:: many_stores:: filter_calls:: interval_join:: catalogue)
fi
# Tests that read a plan, need rows in the order of one partition, count what this process does, have stores that only it can read, or are
# of how chunks are stored, which is the same on workers.
skipped=(
  golden::layouts
  filter_calls::every_function_in_any
  many_stores::a_folder_of_stores_is_a_table
  many_stores::a_query_of_one_contig
  many_stores::many_stores_give_the_bits_of_one
  many_stores::stores_are_opened_at_the_same_time
  many_stores::stores_that_do_not_fit
  queries::a_region_keeps
  queries::the_guide_names_all_settings
  catalogue_zygosity::hardy_weinberg
  individuals::frames_keep_to_the_memory_pool
)
arguments=()
for test in "${skipped[@]}"; do arguments+=(--skip "$test"); done
VCZ_TEST_WORKERS="$(IFS=,; echo "${addresses[*]}")" cargo test --quiet --test it -- "${arguments[@]}" "${filters[@]}"

for address in "${metrics[@]}"; do
  tasks="$(curl -s "http://$address/metrics" | sed -n 's/^vcz_worker_tasks_total //p')"
  echo "a worker ran $tasks tasks"
  [ "$tasks" -ge 100 ] || { echo "FAILED: the tests did not run on workers" >&2; exit 1; }
done
