"""Makes a store of more variants from the chunks of another, over and over, by hard links.

    python3 benches/gpu/repeat.py STORE LONGER VARIANTS [SPACING]

STORE is a folder of Zarr v2 whose arrays have a chunk for each `i.j.k`, such as those of benches/simulate; LONGER, on the same file system, must not exist. Only whole
chunks are repeated. Positions repeat as well: open LONGER with OPTIONS ('vcz.region_index' 'ignore'). With SPACING, sites are so many bases apart instead,
in order if STORE has one contig, so that there are windows, and LONGER has no region index.
"""

import array
import json
import os
import sys


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    store, longer, variants = sys.argv[1], sys.argv[2], int(sys.argv[3])
    spacing = float(sys.argv[4]) if len(sys.argv) == 5 else None
    with open(os.path.join(store, "variant_position", ".zarray")) as file:
        before = json.load(file)["shape"][0]
    os.makedirs(longer)
    for name in sorted(os.listdir(store)):
        source, target = os.path.join(store, name), os.path.join(longer, name)
        if spacing is not None and name == "region_index":
            continue
        if not os.path.isdir(source):
            # Consolidated metadata would have the shapes of before.
            if name != ".zmetadata":
                os.link(source, target)
            continue
        os.makedirs(target)
        with open(os.path.join(source, ".zarray")) as file:
            meta = json.load(file)
        of_variants = meta["shape"][0] == before
        is_spaced = spacing is not None and name == "variant_position"
        for chunk in os.listdir(source):
            path = os.path.join(source, chunk)
            if chunk == ".zarray":
                if of_variants:
                    meta["shape"][0] = variants
                if is_spaced:
                    meta.update(compressor=None, filters=None, dtype="<i4")
                with open(os.path.join(target, chunk), "w") as file:
                    json.dump(meta, file)
            elif is_spaced and not chunk.startswith("."):
                continue
            elif chunk.startswith(".") or not of_variants:
                os.link(path, os.path.join(target, chunk))
            else:
                first, _, rest = chunk.partition(".")
                whole, all_chunks = before // meta["chunks"][0], -(-variants // meta["chunks"][0])
                for at in range(int(first), all_chunks, whole) if int(first) < whole else ():
                    os.link(path, os.path.join(target, f"{at}.{rest}" if rest else str(at)))
        if is_spaced:
            write_positions(target, variants, meta["chunks"][0], spacing)


def write_positions(target, variants, chunk, spacing):
    """Chunks of the positions of sites that are so many bases apart."""
    for number, first in enumerate(range(0, variants, chunk)):
        # A chunk has all its values, also past the last.
        positions = array.array("i", (1 + int(at * spacing) for at in range(first, first + chunk)))
        if sys.byteorder == "big":
            positions.byteswap()
        with open(os.path.join(target, str(number)), "wb") as file:
            positions.tofile(file)


if __name__ == "__main__":
    main()
