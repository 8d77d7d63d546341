"""What limits a cluster: seconds of a query over a store that is too large to measure, from rates that were measured on one machine.

    python3 benches/cluster_model.py [--samples 78195] [--variants 722e6] [--workers 1,8,32,128] [--backend gpu|host] [--compression 250] …

Each worker fetches its share of the encoded chunks, decodes and counts it, and sends its states to the server, which merges them. Fetching, decoding
and sending overlap, so a worker takes the longest of the three; opening, planning and merging come before and after. The rates are arguments; the
defaults are those of the machines in src/docs/pages/benchmarks.md and of one object store:

* --decode: genotypes decoded and counted by a worker, in bytes a second, one byte for each copy (benches/gpu/run.py, `long`; benches/peers/targets.py)
* --compression: decoded bytes of genotypes for each encoded byte (vcz_arrays: decoded_bytes / stored_bytes)
* --link: bytes a second from the store to a worker, and --latency and --concurrency: seconds of a request for a chunk, and how many are sent at once
* --open: seconds to open the store; --merge: bytes of states that the server merges in a second
"""

import argparse
import math

CHUNK = (1_000, 10_000)
GENOME = 3.1e9


def queries(samples):
    """Name: (bytes of states of a task, which do not depend on its rows, and bytes of states of the whole genome, shared by the tasks)."""
    haplotypes = 2 * samples
    # Guesses: statistics of a window in their states, and cells of a joint spectrum that are not zero.
    window, cells = 8 * 24, 20_000_000
    return {
        "sfs": (8 * (haplotypes + 1), 0),
        "joint_sfs of two halves": (16 * min((haplotypes // 2 + 1) ** 2, cells), 0),
        "six statistics in windows of 50 kb": (0, GENOME / 50_000 * window),
        "allele_counts of each variant": (0, None),
    }


def seconds(arguments, workers, states):
    """The parts of a query's time, by name."""
    of_task, of_genome = states
    calls = arguments.samples * 2 * arguments.variants
    chunks = math.ceil(arguments.samples / CHUNK[1]) * math.ceil(arguments.variants / CHUNK[0])
    share = 1 / workers
    rows = arguments.variants * 8 if of_genome is None else of_genome
    sent = of_task + rows * share
    encoded = calls / arguments.compression
    return {
        "fetch bytes": encoded * share / arguments.link,
        "requests": chunks * share * arguments.latency / arguments.concurrency,
        "decode": calls * share / arguments.decode,
        "send": sent / arguments.link,
        "receive": sent * workers / arguments.link,
        "merge": of_task * workers / arguments.merge,
        "open": arguments.open,
    }


def total(parts):
    at_once = max(parts[name] for name in ("fetch bytes", "requests", "decode", "send", "receive"))
    return at_once + parts["merge"] + parts["open"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=float, default=78_195)
    parser.add_argument("--variants", type=float, default=722e6)
    parser.add_argument("--workers", default="1,8,32,128")
    parser.add_argument("--backend", choices=["gpu", "host"], default="gpu")
    parser.add_argument("--decode", type=float, help="2e12 for an H200, 200e9 for 16 cores, both of mostly rare variants")
    parser.add_argument("--compression", type=float, default=250)
    parser.add_argument("--link", type=float, default=3e9)
    parser.add_argument("--latency", type=float, default=0.03)
    parser.add_argument("--concurrency", type=float, default=256)
    parser.add_argument("--open", type=float, default=0.5)
    parser.add_argument("--merge", type=float, default=1e9)
    arguments = parser.parse_args()
    arguments.decode = arguments.decode or {"gpu": 2e12, "host": 200e9}[arguments.backend]
    calls = arguments.samples * 2 * arguments.variants
    print(f"{arguments.samples:,.0f} samples × {arguments.variants:,.0f} variants: {calls / 1e12:.0f} TB decoded, {calls / arguments.compression / 1e12:.2f} TB encoded")
    print("| query | workers | seconds | limited by | " + " | ".join(seconds(arguments, 1, (0, 0))) + " |\n|" + " --- |" * 11)
    for name, states in queries(int(arguments.samples)).items():
        for workers in map(int, arguments.workers.split(",")):
            parts = seconds(arguments, workers, states)
            limit = max(parts, key=parts.get)
            shown = " | ".join(f"{value:.2f}" for value in parts.values())
            print(f"| {name} | {workers} | {total(parts):.1f} | {limit} | {shown} |")


if __name__ == "__main__":
    main()
