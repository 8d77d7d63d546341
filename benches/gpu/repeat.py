"""Makes a store of more variants from the chunks of another, over and over, by hard links.

    python3 benches/gpu/repeat.py STORE LONGER VARIANTS

STORE is a folder of Zarr v2 whose arrays have a chunk for each `i.j.k`, such as those of benches/simulate; LONGER, on the same file system, must not exist. Only whole
chunks are repeated. Positions repeat as well: open LONGER with OPTIONS ('vcz.region_index' 'ignore').
"""

import json
import os
import sys


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    store, longer, variants = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(os.path.join(store, "variant_position", ".zarray")) as file:
        before = json.load(file)["shape"][0]
    os.makedirs(longer)
    for name in sorted(os.listdir(store)):
        source, target = os.path.join(store, name), os.path.join(longer, name)
        if not os.path.isdir(source):
            # Consolidated metadata would have the shapes of before.
            if name != ".zmetadata":
                os.link(source, target)
            continue
        os.makedirs(target)
        with open(os.path.join(source, ".zarray")) as file:
            array = json.load(file)
        of_variants = array["shape"][0] == before
        for chunk in os.listdir(source):
            path = os.path.join(source, chunk)
            if chunk == ".zarray":
                if of_variants:
                    array["shape"][0] = variants
                with open(os.path.join(target, chunk), "w") as file:
                    json.dump(array, file)
            elif chunk.startswith(".") or not of_variants:
                os.link(path, os.path.join(target, chunk))
            else:
                first, _, rest = chunk.partition(".")
                whole, all_chunks = before // array["chunks"][0], -(-variants // array["chunks"][0])
                for at in range(int(first), all_chunks, whole) if int(first) < whole else ():
                    os.link(path, os.path.join(target, f"{at}.{rest}" if rest else str(at)))


if __name__ == "__main__":
    main()
