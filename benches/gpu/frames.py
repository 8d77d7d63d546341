"""Takes the zstd frames of an array of a store into a file for zstd.cu, cut as the program cuts them where only zeros follow.

    python3 benches/gpu/frames.py STORE.vcz/call_genotype FRAMES [how many chunks [bytes of a frame]]

With bytes of a frame, all that the chunks decode to is cut into pieces of as many bytes, which are compressed again (zstd, level 3).

The file: how many frames there are, and of how many the decoded bytes follow; of each frame its encoded and decoded length; all
frames; decoded frames, evenly chosen. Needs numcodecs (benches/peers/requirements.txt).
"""

import multiprocessing
import pathlib
import struct
import sys

from numcodecs import zstd

MAGIC = b"\x28\xb5\x2f\xfd"
BLOCK = 128 << 10


def of_blosc(chunk):
    """The frames of a Blosc container with one stream a block."""
    n_bytes, block_size = struct.unpack("<II", chunk[4:12])
    n = -(-n_bytes // block_size)
    for start in struct.unpack(f"<{n}I", chunk[16 : 16 + 4 * n]):
        (length,) = struct.unpack("<i", chunk[start : start + 4])
        yield bytearray(chunk[start + 4 : start + 4 + length])


def cut(frame):
    """The frame without the blocks of zeros at its end, and its decoded length; None if it has no content size."""
    descriptor = frame[4]
    single_segment = descriptor >> 5 & 1
    size_at = 6 - single_segment
    width = [single_segment, 2, 4, 8][descriptor >> 6]
    if descriptor & 0x0F or width == 0:
        return None
    size = int.from_bytes(frame[size_at : size_at + width], "little") + (256 if width == 2 else 0)
    if width < 4 or size > 1 << 20:
        return frame, size
    at, blocks = size_at + width, []
    while True:
        header = int.from_bytes(frame[at : at + 3], "little")
        kind, length = header >> 1 & 3, header >> 3
        end = at + 3 + (1 if kind == 1 else length)
        zeros = kind == 1 and frame[at + 3] == 0 or kind == 2 and length <= 9
        blocks.append((at, end, zeros))
        at = end
        if header & 1:
            break
    kept = max([i + 1 for i, (_, _, zeros) in enumerate(blocks) if not zeros], default=1)
    if kept < len(blocks):
        frame[blocks[kept - 1][0]] |= 1
        frame, size = frame[: blocks[kept - 1][1]], kept * BLOCK
        frame[size_at : size_at + width] = size.to_bytes(width, "little")
    return frame, size


def again(piece):
    return zstd.compress(piece, 3)


def main():
    root, target = pathlib.Path(sys.argv[1]), sys.argv[2]
    most = int(sys.argv[3]) if len(sys.argv) > 3 else None
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".") and path.suffix != ".json")
    frames = []
    for path in files[:most]:
        chunk = path.read_bytes()
        frames += map(cut, [bytearray(chunk)] if chunk[:4] == MAGIC else of_blosc(chunk))
    frames = [frame for frame in frames if frame]
    if len(sys.argv) > 4:
        piece = int(sys.argv[4])
        content = b"".join(zstd.decompress(bytes(frame)) for frame, _ in frames)
        pieces = [content[at : at + piece] for at in range(0, len(content) - piece + 1, piece)]
        with multiprocessing.Pool() as pool:
            frames = [(bytearray(frame), piece) for frame in pool.imap(again, pieces, 16)]
    if not frames:
        sys.exit(f"{root} has no zstd frames that say how long they are")
    checked = min(len(frames), 400 if frames[0][1] < 1 << 20 else 8)
    with open(target, "wb") as out:
        out.write(struct.pack("<QQ", len(frames), checked))
        for frame, size in frames:
            out.write(struct.pack("<QQ", len(frame), size))
        for frame, _ in frames:
            out.write(frame)
        for i in range(checked):
            frame, size = frames[i * (len(frames) // checked)]
            decoded = zstd.decompress(bytes(frame))
            if len(decoded) != size:
                sys.exit(f"frame {i * (len(frames) // checked)} decodes to {len(decoded)} bytes, not {size}")
            out.write(decoded)
    encoded, decoded = (sum(sizes) for sizes in zip(*((len(frame), size) for frame, size in frames)))
    print(f"{len(frames)} frames, {encoded} bytes encoded, {decoded} decoded")


if __name__ == "__main__":
    main()
