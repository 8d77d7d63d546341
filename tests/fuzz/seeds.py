"""Seeds for the fuzz targets: small real inputs, one for each codec, shuffle, element size and shape, so that fuzzing starts deep.

    python3 seeds.py FOLDER [STORE.vcz.zip ...]

writes FOLDER/<target>/*. Chunks come from the fixtures and from further stores, cut to a few kB. Needs the packages of
../fixtures/requirements.txt.
"""

import hashlib
import itertools
import json
import pathlib
import struct
import sys
import zipfile
import zlib

import cramjam
import numcodecs
import numpy as np

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
MOST = 2000


def blosc(data, cname="zstd", shuffle=2, level=5, blocksize=0):
    return bytes(numcodecs.Blosc(cname, level, shuffle, blocksize).encode(data))


def is_container(chunk):
    return len(chunk) >= 16 and chunk[0] == 2 and struct.unpack_from("<I", chunk, 12)[0] == len(chunk)


def is_zstd(chunk):
    return chunk[:4] == b"\x28\xb5\x2f\xfd"


def raw_deflate(data):
    return zlib.compress(data)[2:-4]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def raw_lz4(data):
    return bytes(numcodecs.LZ4().encode(data))[4:]


def raw_blosclz(data):
    """The only split of a container; literals where c-blosc would not compress."""
    container = blosc(np.frombuffer(data, np.uint8), "blosclz", 0, 9)
    if container[2] & 2 or len(container) == 24 + len(data):
        runs = [data[at : at + 32] for at in range(0, len(data), 32)]
        return b"".join(bytes([len(run) - 1]) + run for run in runs)
    return container[24:]


def raw(cname, data):
    match cname:
        case "blosclz":
            return raw_blosclz(data)
        case "lz4":
            return raw_lz4(data)
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(data))
        case "zlib":
            return zlib.compress(data)
        case "zstd":
            return bytes(numcodecs.Zstd(3).encode(data))


def chunks(paths):
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                leaf = name.rsplit("/", 1)[-1]
                if leaf.startswith(".") or name.endswith((".json", "/")):
                    continue
                yield archive.read(name)


def decoded(chunk):
    try:
        if is_container(chunk):
            return bytes(numcodecs.Blosc().decode(chunk))
        if is_zstd(chunk):
            return bytes(numcodecs.Zstd().decode(chunk))
    except Exception:
        pass
    return None


def strings(data):
    """The strings of a chunk of variable-length ones, or None."""
    if data is None or len(data) < 8:
        return None
    (n,), at, out = struct.unpack_from("<I", data), 4, []
    if not 0 < n < 100_000:
        return None
    for _ in range(n):
        if at + 4 > len(data):
            return None
        (len_,) = struct.unpack_from("<I", data, at)
        out.append(data[at + 4 : at + 4 + len_])
        at += 4 + len_
    return out if at == len(data) else None


def vlen(texts):
    return struct.pack("<I", len(texts)) + b"".join(struct.pack("<I", len(text)) + text for text in texts)


def genotypes(n, width=1, seed=1):
    rng = np.random.default_rng(seed)
    values = rng.choice([0, 0, 0, 0, 0, 0, 1, 1, 2, -1, -2], n) * (rng.random(n) < 0.4)
    return values.astype(f"<i{width}")


def zero_tail(head, tails, window=None):
    """A zstd frame of `head` in one block, then blocks of zeros of these lengths, as libzstd writes the frame of a bit-shuffled
    block that is much longer than the ones here."""
    frame = bytes(numcodecs.Zstd(3).encode(head))
    single = frame[4] >> 5 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[frame[4] & 3] + (single, 2, 4, 8)[frame[4] >> 6]
    block = bytearray(frame[at:])
    assert block[0] & 1 and frame[4] & 4 == 0, "one block without checksum"
    block[0] &= 0xFE
    out = frame[:4] + (b"\xa0" if window is None else bytes([0x80, window])) + struct.pack("<I", len(head) + sum(tails))
    out += bytes(block) if len(head) else b""
    for k, n in enumerate(tails):
        out += struct.pack("<I", n << 3 | 2 | (k == len(tails) - 1))[:3] + b"\0"
    return out


def one_block(frame, nbytes, size, flags=0x94):
    """A Blosc container of one block that is one frame; by default zstd and bit shuffle, not split."""
    block = struct.pack("<I", len(frame)) + frame
    return bytes([2, 1, flags, size]) + struct.pack("<4I", nbytes, nbytes, 20 + len(block), 20) + block


class Seeds:
    def __init__(self, folder):
        self.folder, self.kinds = pathlib.Path(folder), {}

    def add(self, target, data, kind=None, most=3):
        """Keeps `most` of a kind."""
        if kind is not None:
            n = self.kinds.get((target, kind), 0)
            if n >= most or len(data) > MOST:
                return
            self.kinds[target, kind] = n + 1
        folder = self.folder / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def of_chunks(seeds, paths):
    for chunk in chunks(paths):
        data = decoded(chunk)
        if is_container(chunk):
            seeds.add("blosc", chunk, ("whole", chunk[2], chunk[3], chunk[8:12] < chunk[4:8]))
        if data:
            part = np.frombuffer(data[:1600], np.uint8)
            for k, cname in enumerate(COMPRESSORS):
                if cname == "snappy":
                    continue  # numcodecs has none; the fixtures do
                seeds.add("blosc", blosc(part, cname, 2 if k % 2 else 0), ("cut", cname))
        if is_zstd(chunk):
            seeds.add("zstd_frame", struct.pack("<I", len(chunk)) + chunk, ("whole", chunk[4]))
            seeds.add("zstd_decode", b"\0\5\7\0\1" + chunk, ("whole", chunk[4]))
        texts = strings(data) or strings(chunk)
        if texts and any(texts):
            seeds.add("vlen_utf8", vlen(texts[:40]), "texts", 20)


def of_blosc(seeds):
    data = genotypes(1200).tobytes()
    sizes = (1, 2, 3, 4, 8, 16, 17, 32)
    for (k, cname), shuffle, size in itertools.product(enumerate(COMPRESSORS), range(3), sizes):
        form = bytes([k, shuffle, 5, size]) + struct.pack("<H", 0 if size % 2 else 256)
        seeds.add("blosc", b"\0" + form + data[: 400 + size * 3])
    for k, cname in enumerate(("blosclz", "lz4", "snappy", "zlib", "zstd")):
        for flags, size, elements, last in itertools.product((0, 1, 4, 0x10, 0x14), (1, 2, 8, 17), (128, 250), (0, 99)):
            blocksize = elements * size
            head = bytes([k << 5 | flags, size - 1, elements - 8, 0, 1]) + struct.pack("<H", blocksize - 1 - last)
            n = size if flags & 0x10 == 0 and size <= 16 else 1
            splits = b""
            for i in range(n):
                part = raw(cname, data[: blocksize // n])
                splits += b"\1" if i % 3 == 1 else b"\xff" + struct.pack("<H", len(part)) + part
            splits += b"\xff" + struct.pack("<H", 599) + raw(cname, data[: blocksize - last])
            if len(splits) < MOST and last % size == 0:
                seeds.add("blosc", b"\1" + head + splits)


def of_zstd(seeds):
    for n, planes, level in itertools.product((1, 300, 2000, 70_000), (0, 1, 2, 8), (1, 9)):
        data = np.zeros(8 * n, np.uint8)
        data[: planes * n] = genotypes(planes * n, seed=n) != 0
        for checksum in (False, True):
            frame = bytes(numcodecs.Zstd(level, checksum).encode(data))
            if len(frame) < 3000:
                seeds.add("zstd_frame", struct.pack("<I", planes * n) + frame)
                seeds.add("zstd_decode", b"\0\5\7\0\1" + frame)
                for level in (2, 6, 8, 10, 12):
                    seeds.add("zstd_decode", bytes([1, level, 7, planes % 3, n % 200]) + data[:600].tobytes())
    seeds.add("zstd_frame", struct.pack("<I", 7) + bytes(cramjam.zstd.compress(bytes(1000))))


def of_tails(seeds):
    """Bit-shuffled blocks of 1536 elements whose frames end in zeros, at the end of a plane and elsewhere."""
    for log, head, parts, window in itertools.product(range(4), (0, 1, 192, 384, 400, 1000), (1, 3), (None, 0)):
        width = 1 << log
        nbytes = 1536 * width
        noise = bytes(genotypes(head, seed=head + 1).view(np.uint8) | 1)
        n = (nbytes - head) // parts
        if window is not None and nbytes - head > 1024:
            parts = -(-(nbytes - head) // 1024)
            n = 1024
        tails = [n] * (parts - 1) + [nbytes - head - n * (parts - 1)]
        frame = zero_tail(noise, tails, window)
        seeds.add("zstd_frame", struct.pack("<I", head // 2) + frame)
        seeds.add("blosc", one_block(frame, nbytes, width))
        seeds.add("gpu_plan", bytes([5, log | 64]) + one_block(frame, nbytes, width))
        if head == 400:
            seeds.add("blosc", one_block(frame, nbytes, width, 0x91))
            seeds.add("gpu_plan", bytes([5, log | 64 | 32]) + one_block(frame, nbytes, width, 0x90))


def of_repeats(seeds):
    """Bit-shuffled blocks of 1536 elements that end in copies of a plane, as small negative numbers do."""
    for log, first, level in itertools.product(range(3), (0, 1, 2, 4), (3, 9)):
        width = 1 << log
        planes = [bytes(genotypes(192, seed=k).view(np.uint8)) for k in range(first + 1)]
        data = b"".join(planes) + planes[-1] * (8 * width - len(planes))
        frame = bytes(numcodecs.Zstd(level).encode(data))
        seeds.add("zstd_frame", struct.pack("<I", 192) + frame)
        seeds.add("blosc", one_block(frame, len(data), width))
        seeds.add("gpu_plan", bytes([5, log | 64]) + one_block(frame, len(data), width))


def of_vlen(seeds):
    for texts in ([b""], [b"A", b"CG", b""], ["β", "𐍈", "é"], [b"A"] * 300, [b"x" * 500]):
        seeds.add("vlen_utf8", vlen([text.encode() if isinstance(text, str) else text for text in texts]))


def of_shards(seeds):
    """As in checks/shard.rs: 8 inner chunks of 4 x 3 elements, uint8 or text."""
    words = ["", "A", "C", "GT", "β", "TTTT", "a longer one"]
    for text, start, checksum, codec, big in itertools.product((0, 1), (0, 1), (0, 1), range(8), (0, 1)):
        body, index = b"", []
        head = 128 + 4 * checksum if start else 0
        for i in range(8):
            if i == 5:
                index += [2**64 - 1] * 2
                continue
            if text:
                data = vlen([words[(i + k) % 7].encode() for k in range(12)])
            else:
                data = bytes((i * 5 + k) % 11 for k in range(12))
            match codec:
                case 1:
                    data = raw("zstd", data)
                case 2:
                    data = bytes(numcodecs.GZip().encode(data))
                case 3:
                    data = bytes(numcodecs.LZ4().encode(data))
                case 4:
                    data = blosc(data, "lz4", 1)
                case 5:
                    data = zlib.compress(data)
                case 6:
                    data += crc32c(data)
            index += [head + len(body), len(data)]
            body += data
        index = struct.pack(">16Q" if big else "<16Q", *index)
        if checksum:
            index += crc32c(index)
        kind = text | start << 1 | checksum << 2 | codec << 3 | big << 6
        shard = index + body if start else body + index
        seeds.add("shard", bytes([kind]) + shard)
        if checksum and not big:
            seeds.add("shard", bytes([kind | 0x80]) + shard)


def of_disk_cache(seeds):
    """As in checks/disk_cache.rs: whole files, files without their checksum, and answers to be written."""

    def header(**changed):
        fields = {"version": 1, "key": "k", "e_tag": '"1"', "modified": {"secs": 1_700_000_000, "nanos": 5}, "size": 100,
                  "range": {"start": 10, "end": 30}} | changed
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    body = bytes(range(20))
    texts = [
        header() + body, header(e_tag="", size=30) + body, header(range={"start": 5, "end": 5}),
        # Not what was written: another version, key and length, more than the object, a range the wrong way round, large numbers.
        header(version=2) + body, header(key="K") + body, header() + body[1:], header(size=29) + body,
        header(range={"start": 30, "end": 10}) + body, header(range={"start": 2**64 - 20, "end": 2**64 - 1}) + body,
        header(modified={"secs": 2**64 - 1, "nanos": 4_000_000_000}) + body, header(size=2**70) + body, header(e_tag=None) + body,
        header(e_tag="\0\n\u20ac" * 20) + body, header()[:-1], b"\n" + body, b"{}\n", header() + header() + body,
        header(e_tag="x" * 17_000) + body,
    ]
    for text in texts:
        seeds.add("disk_cache", b"\1" + text)
        seeds.add("disk_cache", b"\0" + crc32c(text) + text)
    for start, more, seconds, key, tag, at in [
        (0, 0, 0, b"", b"", 0), (10, 70, 1_700_000_000, b"https://a/b.zip 0-10", b'"5f"', 30), (2**64 - 21, 1, 1, b"k", b"W/\"\n\"", 5),
        (2**64 - 1, 0, 0, b"k", b"", 1), (0, 2**64 - 1, 2**64 - 1, b"\xff", b"\xff\0", 200), (7, 7, 7, b"k" * 255, b"\1" * 255, 1700),
    ]:
        numbers = struct.pack("<4Q", start, more, seconds, 5) + struct.pack("<H4B", at, 0x80, len(key), len(tag), 0)
        seeds.add("disk_cache", b"\2" + numbers + key + tag + body)


def of_foreign(seeds):
    """As in checks/foreign.rs: 96 elements, in each of its chains."""
    from numcodecs.pcodec import PCodec

    n = 96
    rng = np.random.default_rng(2)
    whole = np.cumsum(rng.integers(-3, 40, n)).astype("<i4")
    flags = rng.random(n) < 0.4
    delta = {dtype: np.diff(whole, prepend=0).astype(dtype) for dtype in ("<i2", "<i4", "<f8")}
    texts = vlen([[b"", b"A", b"GT", "\u03b2".encode()][k % 4] for k in range(n)])

    def bz2(data):
        return bytes(numcodecs.BZ2(1).encode(data))

    def lzma(data, **options):
        return bytes(numcodecs.LZMA(**(options or dict(preset=1))).encode(data))

    def lzma_raw(data, id_):
        filters = [dict(id=3, dist=2), dict(id=id_, dict_size=65536)]
        return lzma(data, format=3, filters=filters)

    def pcodec(data):
        return bytes(PCodec().encode(data))

    def zstd(data):
        return bytes(numcodecs.Zstd(3).encode(data))

    def shards(parts):
        body, index = b"", []
        for k, part in enumerate(parts):
            index += [2**64 - 1] * 2 if k == 2 else [len(body), len(part)]
            body += b"" if k == 2 else part
        return body + struct.pack("<8Q", *index)

    checked = whole.astype("i1")
    quarters = np.split(whole, 4)
    chunks = {
        0: bz2(whole), 1: lzma(whole), 2: lzma(whole, format=2), 3: lzma_raw(whole, 0x21), 4: lzma_raw(whole, 0x4000000000000001),
        5: pcodec(whole.astype("i2")), 6: pcodec(whole), 7: pcodec(whole / 8), 8: pcodec(whole.astype("u8")),
        9: pcodec((whole / 8).astype("f2")), 10: delta["<i2"].tobytes(), 11: zstd(delta["<f8"]), 12: zstd(pcodec(delta["<i4"])),
        13: bz2(bytes(numcodecs.PackBits().encode(flags))), 14: np.packbits(flags, bitorder="little").tobytes(), 15: b"\0" * 84 + b"\0",
        16: bytes(numcodecs.GZip(1).encode(numcodecs.Shuffle(4).encode(whole))), 17: bytes(numcodecs.Fletcher32().encode(checked)),
        18: bytes(numcodecs.CRC32().encode(numcodecs.Adler32().encode(checked))), 19: bz2(texts), 20: lzma(texts),
        21: bz2(whole.astype("<i2")), 22: lzma(zstd(bz2(whole))),
        23: shards([bz2(np.diff(part, prepend=0).astype("<i2")) for part in quarters]),
        24: bz2(shards([part.tobytes() for part in np.split(delta["<i4"], 4)])), 25: (whole % 250).astype("<f8").tobytes(),
        26: lzma((whole / 8).astype("<f4")), 27: (data := bz2((whole / 8).astype("<f4"))) + crc32c(data),
        28: bz2(whole.reshape(8, 12).T.copy()), 29: zstd(np.diff(whole.reshape(8, 12).T.ravel(), prepend=0).astype("<i2")), 30: bz2(texts),
        31: lzma(shards([bytes(numcodecs.GZip(1).encode(pcodec(part.astype("i2")))) for part in quarters])),
    }
    for kind, chunk in chunks.items():
        seeds.add("foreign", bytes([kind]) + chunk)
        seeds.add("foreign", bytes([kind | 0x80]) + chunk)


def of_plans(seeds):
    """As in checks/gpu_plan.rs: chunks of 64 x 24 elements, whole or in four inner chunks."""

    def encoded(codec, part, width, form):
        data = part.tobytes()
        match codec:
            case 0:
                return raw("zstd", data)
            case 1 | 2:
                return raw_deflate(data)
            case 3:
                return raw_lz4(data)
            case 4:
                return data
        cname, shuffle, blocksize = form
        return blosc(part, cname, shuffle, 5, blocksize)

    forms = list(itertools.product(("zstd", "lz4", "zlib"), range(3), (0, 256)))
    for log, codec, sharded, form in itertools.product(range(4), range(6), (0, 1), forms):
        if codec != 5 and form != forms[0]:
            continue
        width = 1 << log
        bits = log | (8 if log == 1 else 0) | (32 if log == 2 else 0) | 64
        values = genotypes(1536, width)
        if width > 1:
            values = values & 1
        if sharded:
            parts = [encoded(codec, part, width, form) for part in np.split(values, 4)]
            n = max(map(len, parts[:2]))
            # Two of the four, so that the split of the rest is simple.
            pair = parts[0] + parts[1]
            cut = min(255, -(-len(parts[0]) * 256 // len(pair)))
            seed = bytes([codec, bits | 16, 0b1001, cut]) + pair
        else:
            seed = bytes([codec, bits]) + encoded(codec, values, width, form)
        if len(seed) < 4 * MOST:
            seeds.add("gpu_plan", seed)
    # As they are, without repair.
    values = genotypes(1536)
    for codec, data in (
        (0, raw("zstd", values.tobytes())),
        (1, bytes(numcodecs.GZip().encode(values))),
        (2, zlib.compress(values.tobytes())),
        (3, bytes(numcodecs.LZ4().encode(values))),
        (5, blosc(values)),
    ):
        seeds.add("gpu_plan", bytes([codec, 0]) + data)
        seeds.add("gpu_plan", bytes([codec, 8]) + data + crc32c(data))


def main():
    folder, *stores = sys.argv[1:]
    seeds = Seeds(folder)
    paths = sorted(FIXTURES.glob("**/*.vcz.zip")) + [pathlib.Path(store) for store in stores]
    of_chunks(seeds, paths)
    of_blosc(seeds)
    of_zstd(seeds)
    of_tails(seeds)
    of_repeats(seeds)
    of_vlen(seeds)
    of_disk_cache(seeds)
    of_shards(seeds)
    of_foreign(seeds)
    of_plans(seeds)
    for target in sorted(pathlib.Path(folder).iterdir()):
        sizes = [path.stat().st_size for path in target.iterdir()]
        print(f"{target.name}: {len(sizes)} seeds, {sum(sizes)} bytes")


main()
