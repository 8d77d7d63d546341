// Runs kernels/zstd.cu in emulation and compares with libzstd: frames that libzstd made, which must come out the same; frames that
// were then changed, cut short or made to lie, and the first frames in files given by name, which must either be refused or come out as
// libzstd has them. `run.sh` builds it with the sanitizers, so that what is read or written elsewhere is a failure too.
//
//     zstd [cases] [first seed] [files...]
#include "emulate.h"

#include "zstd.cu"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "random.h"

#include <cstring>
#include <fstream>
#include <iterator>

namespace {

using Data = std::vector<u8>;

// Bytes like those of bit-shuffled genotypes, of texts, or of noise.
Data content() {
    const u32 style = (u32)below(8);
    const size_t len = style == 7 ? between(200000, 400000) : chance(0.2) ? below(300) : below(chance(0.3) ? 140000 : 20000);
    Data data(len);
    const u32 period = (u32)between(1, 700), alphabet = (u32)between(1, chance(0.3) ? 250 : 12);
    const double rare = 1.0 / (double)between(2, 400);
    for (size_t i = 0; i < len; ++i) {
        switch (style) {
            case 0: data[i] = (u8)rng(); break;
            case 1: data[i] = (u8)below(alphabet); break;
            case 2: data[i] = chance(rare) ? (u8)(1u << below(8)) : 0; break;
            case 3: data[i] = i >= period && !chance(rare) ? data[i - period] : (u8)below(alphabet); break;
            case 4: data[i] = (u8)(std::min(std::min(below(alphabet), below(alphabet)), below(alphabet))); break;
            case 5: data[i] = i >= period && (i / 97) % 3 != 0 ? data[i - period] : (u8)below(alphabet); break;
            default: {
                // Rows of bits, some of them like others.
                const bool again = i >= period && (i / period * 7919) % 5 < 3;
                data[i] = again && !chance(rare) ? data[i - period * (1 + (i / period) % 2 * (i >= 2 * (size_t)period))] : chance(0.3) ? (u8)rng() : 0;
            }
        }
    }
    return data;
}

Data compress(const Data& data) {
    ZSTD_CCtx* context = ZSTD_createCCtx();
    const int level = chance(0.1) ? -(int)between(1, 20) : chance(0.1) ? (int)between(13, 19) : (int)between(1, 9);
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
    if (chance(0.2)) ZSTD_CCtx_setParameter(context, ZSTD_c_targetCBlockSize, (int)between(1340, 20000));
    if (chance(0.2)) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, (int)between(10, 17));
    if (chance(0.1)) ZSTD_CCtx_setParameter(context, ZSTD_c_minMatch, (int)between(3, 7));
    if (chance(0.2)) ZSTD_CCtx_setParameter(context, ZSTD_c_literalCompressionMode, (int)between(1, 2));
    ZSTD_CCtx_setPledgedSrcSize(context, data.size());
    Data frame(ZSTD_compressBound(data.size()) + 1000 + data.size() / 10);
    ZSTD_outBuffer out = {frame.data(), frame.size(), 0};
    // In pieces, some of them flushed, so that there are short blocks, which use tables again.
    size_t at = 0;
    const bool flushed = chance(0.4);
    for (;;) {
        const size_t len = flushed && chance(0.9) ? std::min<size_t>(between(1, 40000), data.size() - at) : data.size() - at;
        ZSTD_inBuffer in = {data.data() + at, len, 0};
        at += len;
        const bool end = at == data.size();
        const size_t left = ZSTD_compressStream2(context, &out, &in, end ? ZSTD_e_end : ZSTD_e_flush);
        if (ZSTD_isError(left) || left != 0 || in.pos != len) fail("libzstd did not compress");
        if (end) break;
    }
    ZSTD_freeCCtx(context);
    frame.resize(out.pos);
    return frame;
}

// What the kernel makes of frames, each with room for so many bytes; nothing where it refuses.
struct Decoded {
    bool fine;
    Data bytes;
};

std::vector<Decoded> decode(const std::vector<Data>& frames, const std::vector<size_t>& rooms) {
    const u32 n = (u32)frames.size(), ctas = (u32)between(1, 2);
    std::vector<std::unique_ptr<u8[]>> sources, targets;
    std::vector<VczFrame> described(n);
    std::vector<size_t> starts(n);
    for (u32 i = 0; i < n; ++i) {
        // At any alignment, with the bytes around it that aligned words have. What is written outside is found by comparison.
        const size_t before = 16 + below(16), after = 16;
        sources.emplace_back(new u8[16 + before + frames[i].size() + after]);
        u8* source = (u8*)(((u64)sources[i].get() + 15) & ~(u64)15) + below(16);
        std::copy(frames[i].begin(), frames[i].end(), source);
        targets.emplace_back(new u8[before + rooms[i] + after]);
        std::fill_n(targets[i].get(), before + rooms[i] + after, 0xa5);
        starts[i] = before;
        described[i].src = (u64)source;
        described[i].src_len = (u32)frames[i].size();
        described[i].dst = (u64)targets[i].get() + before;
        described[i].dst_len = (u32)rooms[i];
        described[i].status = i;
    }
    std::vector<u32> status(n);
    u32 next = 0;
    const size_t largest = std::min<size_t>(*std::max_element(rooms.begin(), rooms.end()), VCZ_ZSTD_BLOCK);
    const u32 literals = (u32)(largest + 15) / 16 * 16;
    std::vector<u64> scratch((size_t)ctas * VCZ_ZSTD_WARPS * (literals + VCZ_ZSTD_HISTORY) / 8 + 2);
    emulate::launch(ctas, 32 * (VCZ_ZSTD_WARPS + 1), [&] {
        vcz_zstd(described.data(), n, &next, ((u64)scratch.data() + 15) & ~(u64)15, literals, status.data());
    });
    std::vector<Decoded> out(n);
    for (u32 i = 0; i < n; ++i) {
        const u8* target = targets[i].get();
        for (size_t j = 0; j < starts[i] + rooms[i] + 16; ++j) {
            if ((j < starts[i] || j >= starts[i] + rooms[i]) && target[j] != 0xa5) fail("a byte outside of the room was written");
        }
        out[i].fine = status[i] == 0;
        out[i].bytes.assign(target + starts[i], target + starts[i] + rooms[i]);
    }
    return out;
}

// The content size that a frame gives, if the kernel may be asked to decode it.
bool asked(const Data& frame, size_t& room) {
    const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > 4000000) return false;
    room = (size_t)size;
    return true;
}

// Whatever the kernel accepts, libzstd accepts too, and it is the same. The frame beside them, which holds `content`, comes out as it is.
u64 check_any(const std::vector<Data>& frames, const Data& beside, const Data& content) {
    std::vector<Data> some = {beside};
    std::vector<size_t> rooms = {content.size()};
    for (const Data& frame : frames) {
        size_t room = 0;
        if (!asked(frame, room)) continue;
        some.push_back(frame);
        rooms.push_back(room);
    }
    u64 accepted = 0;
    const std::vector<Decoded> found = decode(some, rooms);
    if (!found[0].fine || found[0].bytes != content) fail("a frame suffered from those beside it");
    for (size_t i = 1; i < some.size(); ++i) {
        if (!found[i].fine) continue;
        accepted += 1;
        Data expected(rooms[i] + 1);
        const size_t len = ZSTD_decompress(expected.data(), rooms[i], some[i].data(), some[i].size());
        if (ZSTD_isError(len)) fail(std::string("a frame was accepted that libzstd refuses: ") + ZSTD_getErrorName(len));
        expected.resize(len);
        if (expected != found[i].bytes) fail("a changed frame came out different");
    }
    return accepted;
}

Data changed(Data frame) {
    for (u64 n = between(1, 3); n > 0 && !frame.empty(); --n) {
        const size_t at = chance(0.5) ? below(std::min<size_t>(frame.size(), 60)) : below(frame.size());
        switch (below(6)) {
            case 0: frame[at] = (u8)rng(); break;
            case 1: frame.resize(at); break;
            case 2: frame.insert(frame.begin() + (std::ptrdiff_t)at, (u8)rng()); break;
            case 3: frame.erase(frame.begin() + (std::ptrdiff_t)at); break;
            default: frame[at] ^= (u8)(1 << below(8));
        }
    }
    return frame;
}

// A frame with a window, of blocks of others, some of them changed, that says that it holds `size` bytes; or, where libzstd decodes it, as many as
// it does hold, sometimes.
Data spliced(const std::vector<Data>& frames, size_t size) {
    struct Block {
        u32 type, size;
        Data bytes;
    };
    std::vector<Block> blocks;
    for (const Data& frame : frames) {
        size_t at = ZSTD_frameHeaderSize(frame.data(), frame.size());
        for (bool last = false; !last;) {
            const u32 header = frame[at] | frame[at + 1] << 8 | (u32)frame[at + 2] << 16, type = header >> 1 & 3;
            const size_t len = type == 1 ? 1 : header >> 3;
            last = (header & 1) != 0;
            at += 3;
            blocks.push_back({type, header >> 3, Data(frame.begin() + (std::ptrdiff_t)at, frame.begin() + (std::ptrdiff_t)(at + len))});
            at += len;
        }
    }
    Data body;
    const u64 n = between(1, 4);
    for (u64 i = 0; i < n; ++i) {
        Block block = blocks[below(blocks.size())];
        if (block.type == 2 && chance(0.1)) {
            // A byte, many times, and no sequences.
            const u32 literals = (u32)below(140000) << 4 | 3 << 2 | 1;
            block.bytes = {(u8)literals, (u8)(literals >> 8), (u8)(literals >> 16), (u8)rng(), 0};
        } else if (block.type == 2 && chance(0.5)) {
            block.bytes = changed(block.bytes);
        }
        if (block.type == 2) block.size = (u32)block.bytes.size();
        const u32 header = (i + 1 == n ? 1 : 0) | block.type << 1 | block.size << 3;
        body.insert(body.end(), {(u8)header, (u8)(header >> 8), (u8)(header >> 16)});
        body.insert(body.end(), block.bytes.begin(), block.bytes.end());
    }
    const u8 window = chance(0.2) ? (u8)below(64) : 7 << 3;
    const auto frame = [&](std::initializer_list<u8> header) {
        Data bytes = {0x28, 0xb5, 0x2f, 0xfd};
        bytes.insert(bytes.end(), header);
        bytes.insert(bytes.end(), body.begin(), body.end());
        return bytes;
    };
    if (chance(0.6)) {
        const Data without = frame({0x00, window});
        Data out(600000);
        const size_t len = ZSTD_decompress(out.data(), out.size(), without.data(), without.size());
        if (!ZSTD_isError(len)) size = len;
    }
    return frame({0x80, window, (u8)size, (u8)(size >> 8), (u8)(size >> 16), (u8)(size >> 24)});
}

}  // namespace

int main(int argc, char** argv) {
    const u64 cases = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100;
    const u64 first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    u64 accepted = 0, n_changed = 0;
    for (seed = first; seed < first + cases; ++seed) {
        rng.seed(seed);
        what = "zstd frames";
        std::vector<Data> contents, frames;
        std::vector<size_t> rooms;
        for (u64 n = between(1, 6); n > 0; --n) {
            contents.push_back(content());
            frames.push_back(compress(contents.back()));
            rooms.push_back(contents.back().size());
        }
        const std::vector<Decoded> found = decode(frames, rooms);
        for (size_t i = 0; i < frames.size(); ++i) {
            if (!found[i].fine) fail("frame " + std::to_string(i) + " of " + std::to_string(rooms[i]) + " bytes was refused");
            for (size_t j = 0; j < rooms[i]; ++j) {
                if (found[i].bytes[j] != contents[i][j]) {
                    fail("frame " + std::to_string(i) + ": byte " + std::to_string(j) + " of " + std::to_string(rooms[i]) + " differs");
                }
            }
        }
        std::vector<Data> mutants;
        for (const Data& frame : frames) {
            for (u32 n = 0; n < 6; ++n) mutants.push_back(changed(frame));
        }
        n_changed += mutants.size();
        accepted += check_any(mutants, frames[0], contents[0]);
        // And beside a short one, so that there is little memory for each.
        mutants.clear();
        const Data few(contents[0].begin(), contents[0].begin() + (std::ptrdiff_t)std::min<size_t>(contents[0].size(), 200));
        const bool short_ones = chance(0.5);
        for (u32 n = 0; n < 10; ++n) mutants.push_back(spliced(frames, short_ones ? below(300) : below(200000)));
        n_changed += mutants.size();
        accepted += check_any(mutants, compress(few), few);
    }
    std::printf("%llu cases of zstd frames agree with libzstd; of %llu changed frames %llu were accepted\n", cases, n_changed, accepted);
    u64 files = 0;
    accepted = 0;
    std::vector<Data> batch;
    const Data none = compress(Data());
    seed = 0;
    for (int i = 3; i < argc; ++i) {
        what = std::string("up to ") + argv[i];
        std::ifstream file(argv[i], std::ios::binary);
        Data bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        // Other things may come before the frame, and after it.
        const u8 magic[] = {0x28, 0xb5, 0x2f, 0xfd};
        bytes.erase(bytes.begin(), std::search(bytes.begin(), bytes.end(), std::begin(magic), std::end(magic)));
        const size_t len = ZSTD_findFrameCompressedSize(bytes.data(), bytes.size());
        batch.push_back(bytes);
        if (!ZSTD_isError(len)) {
            bytes.resize(len);
            batch.push_back(std::move(bytes));
        }
        files += 1;
        if (batch.size() >= 16 || i + 1 == argc) {
            accepted += check_any(batch, none, Data());
            batch.clear();
        }
    }
    if (files > 0) std::printf("%llu files agree with libzstd, %llu of their frames were accepted\n", files, accepted);
}
