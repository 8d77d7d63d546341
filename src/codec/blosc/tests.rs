//! Tests of the Blosc reader against c-blosc itself.

use proptest::prelude::*;

use super::super::Scratch;
use super::super::testing::{Form, c_compress, c_decompress, with_missing};
use super::*;

fn form() -> impl Strategy<Value = Form> {
    (
        prop::sample::select(vec!["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"]),
        0..3,
        0..=9,
        1usize..=16,
        prop::sample::select(vec![0usize, 0, 128, 256, 1000, 4096, 10_000, 65_536]),
    )
        .prop_map(|(compressor, shuffle, level, typesize, blocksize)| Form {
            compressor,
            shuffle,
            level,
            typesize,
            blocksize,
        })
}

/// Data like genotypes and positions: runs, small values, some noise.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![
        0usize..300,
        0usize..40_000,
        Just(1024),
        Just(65_536 + 8),
        0usize..300_000
    ];
    (len, 0u32..4, any::<u64>()).prop_map(|(len, kind, seed)| {
        let mut state = seed | 1;
        (0..len)
            .map(|i| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                match kind {
                    0 => state as u8,
                    1 => u8::from(state & 0xff00 == 0),
                    2 => (i / 7) as u8,
                    _ => {
                        if state & 0xf000 == 0 {
                            state as u8 & 0x83
                        } else {
                            0
                        }
                    }
                }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn what_c_blosc_wrote_is_read(data in data(), form in form()) {
        let src = c_compress(&data, &form);
        let mut dst = vec![0xaa; data.len()];
        decompress(&src, data.len(), &mut dst, &mut Scratch::default()).unwrap();
        prop_assert!(dst == data);
    }

    #[test]
    fn planes_are_the_raw_block(data in data(), form in form()) {
        let src = c_compress(&data, &form);
        let header = BloscHeader::parse(&src).unwrap();
        let mut scratch = Scratch::default();
        for i in 0..header.n_blocks() {
            let len = header.block_len(i);
            let (mut raw, mut planes) = (vec![0xaa; len], vec![0xaa; len + 3]);
            decompress_block_raw(&header, &src, i, &mut raw, &mut scratch).unwrap();
            let block = decompress_block_planes(&header, &src, i, &mut planes, &mut scratch).unwrap();
            prop_assert_eq!(block.len, len);
            prop_assert!(raw[..block.decoded] == planes[..block.decoded]);
            for at in block.decoded..len {
                let expected = if block.repeats { raw[at - block.plane_len] } else { 0 };
                prop_assert_eq!(raw[at], expected);
            }
            prop_assert_eq!(block.bit_planes, header.block_shuffle(i) == Shuffle::Bit);
            if block.bit_planes {
                prop_assert_eq!(block.plane_len, len / header.typesize() / 8);
                let whole = block.decoded % block.plane_len;
                prop_assert!(whole == 0 || block.decoded == len);
            }
            prop_assert_eq!(&planes[len..], &[0xaa; 3]);
            let mut plain = vec![0xaa; len];
            decompress_block(&header, &src, i, &mut plain, &mut scratch).unwrap();
            prop_assert!(plain == data[header.block_range(i)]);
        }
    }

    /// Damaged containers: no panic, nothing written outside, and nothing accepted that c-blosc decodes otherwise.
    #[test]
    fn damaged_containers(
        data in data(), form in form(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0u32..8), 1..4),
        keep in prop_oneof![Just(1.0f64), Just(1.0), 0.0f64..1.0],
        resize: bool,
    ) {
        let mut src = c_compress(&data, &form);
        for (at, in_header, bit) in flips {
            let len = src.len();
            let at = if in_header { at.index(len.min(40)) } else { at.index(len) };
            src[at] ^= 1 << bit;
        }
        src.truncate((src.len() as f64 * keep) as usize);
        if resize && src.len() >= HEADER_LEN {
            let len = src.len() as u32;
            src[12..16].copy_from_slice(&len.to_le_bytes());
        }
        let mut room = vec![0xaa; data.len() + 64];
        let (dst, guard) = room.split_at_mut(data.len());
        let result = decompress(&src, data.len(), dst, &mut Scratch::default());
        prop_assert!(guard.iter().all(|b| *b == 0xaa));
        if result.is_ok() {
            match c_decompress(&src, data.len()) {
                Some(theirs) => prop_assert!(theirs == dst),
                // lz4_flex does not insist that the last five bytes of a block are literals, as liblz4 does.
                None => prop_assert!(src[2] >> 5 == 1, "accepted, but c-blosc refuses: flags {:#x}", src[2]),
            }
        }
    }

    #[test]
    fn any_bytes(mut src in prop::collection::vec(any::<u8>(), 0..200), nbytes in 0usize..400, flags: u8, header: bool) {
        if header && src.len() >= HEADER_LEN {
            let len = src.len() as u32;
            src[0] = 2;
            src[1] = 1;
            src[2] = flags & !0x08;
            src[4..8].copy_from_slice(&(nbytes as u32).to_le_bytes());
            src[8..12].copy_from_slice(&(nbytes as u32 / 2 + 1).to_le_bytes());
            src[12..16].copy_from_slice(&len.to_le_bytes());
        }
        let mut dst = vec![0; nbytes];
        let _ = decompress(&src, nbytes, &mut dst, &mut Scratch::default());
    }
}

/// The default of a VCZ store: one-byte elements, zstd, bit shuffle, 512 KiB blocks that end in zeros.
#[test]
fn a_default_genotype_chunk() {
    let data: Vec<u8> = (0..1_200_004u32)
        .map(|i| u8::from(i.wrapping_mul(2_654_435_761) >> 28 == 0))
        .collect();
    let form = Form {
        compressor: "zstd",
        shuffle: 2,
        level: 7,
        typesize: 1,
        blocksize: 0,
    };
    let src = c_compress(&data, &form);
    let header = BloscHeader::parse(&src).unwrap();
    assert_eq!((header.blocksize(), header.n_blocks()), (512 * 1024, 3));
    assert_eq!(header.compressor(), Compressor::Zstd);
    let mut scratch = Scratch::default();
    let mut dst = vec![0; 512 * 1024];
    let block = decompress_block_planes(&header, &src, 0, &mut dst, &mut scratch).unwrap();
    assert_eq!(block.plane_len, 65_536);
    assert_eq!(block.n_planes(), 2);
    // The last block has 151,428 bytes, not a multiple of eight: it is not shuffled.
    assert_eq!(header.block_len(2) % 8, 4);
    let block = decompress_block_planes(&header, &src, 2, &mut dst, &mut scratch).unwrap();
    assert!(!block.bit_planes && block.n_planes() == 0);
    assert_eq!(dst[..block.decoded], data[1024 * 1024..]);
}

/// With missing calls, planes 2 to 7 are equal; the frame shows it, and only what is needed of them is decoded.
#[test]
fn a_genotype_chunk_with_missing_calls() {
    let data = with_missing(1_200_000, 11);
    let form = Form {
        compressor: "zstd",
        shuffle: 2,
        level: 7,
        typesize: 1,
        blocksize: 0,
    };
    let src = c_compress(&data, &form);
    let header = BloscHeader::parse(&src).unwrap();
    let mut scratch = Scratch::default();
    let mut dst = vec![0xaa; 512 * 1024];
    let block = decompress_block_planes(&header, &src, 0, &mut dst, &mut scratch).unwrap();
    assert!(block.repeats);
    assert!((2..=4).contains(&block.n_planes()), "{block:?}");
    assert_eq!(block.decoded, block.n_planes() * block.plane_len);
    let mut whole = vec![0; data.len()];
    decompress(&src, data.len(), &mut whole, &mut scratch).unwrap();
    assert!(whole == data);
}

#[test]
fn headers_are_checked() {
    let data = vec![7u8; 5000];
    let form = Form {
        compressor: "zstd",
        shuffle: 1,
        level: 5,
        typesize: 4,
        blocksize: 1024,
    };
    let src = c_compress(&data, &form);
    let mut dst = vec![0; 5000];
    let mut scratch = Scratch::default();
    decompress(&src, 5000, &mut dst, &mut scratch).unwrap();
    let mut attempt = |at: usize, value: &[u8]| {
        let mut src = src.clone();
        src[at..at + value.len()].copy_from_slice(value);
        decompress(&src, 5000, &mut dst, &mut scratch).unwrap_err()
    };
    assert!(attempt(0, &[1]).contains("container version 1"));
    assert!(attempt(1, &[9]).contains("version 9 of the zstd format"));
    assert!(attempt(2, &[0x08]).contains("reserved"));
    assert!(attempt(2, &[0xe0]).contains("unknown compressor 7"));
    assert!(attempt(2, &[0x82]).contains("stored bytes"));
    assert!(attempt(3, &[0]).contains("element size"));
    assert!(attempt(4, &4999i32.to_le_bytes()).contains("holds 4999 bytes, expected 5000"));
    assert!(attempt(4, &(-1i32).to_le_bytes()).contains("-1"));
    assert!(attempt(8, &0i32.to_le_bytes()).contains("blocks of 0 bytes"));
    assert!(attempt(8, &5001i32.to_le_bytes()).contains("blocks of 5001 bytes"));
    assert!(attempt(8, &1i32.to_le_bytes()).contains("offsets of 5000 blocks"));
    assert!(attempt(12, &16i32.to_le_bytes()).contains("16 encoded bytes"));
    assert!(attempt(20, &i32::MAX.to_le_bytes()).contains("block 1 starts"));
    for end in 0..src.len() {
        assert!(
            decompress(
                &src[..end],
                5000,
                &mut vec![0; 5000],
                &mut Scratch::default()
            )
            .is_err()
        );
    }
}

/// What no encoder writes, and c-blosc decodes all the same.
#[test]
fn what_c_blosc_takes_is_taken() {
    let agree = |src: &[u8], len: usize| {
        let mut dst = vec![0; len];
        decompress(src, len, &mut dst, &mut Scratch::default()).unwrap();
        assert_eq!(Some(dst), c_decompress(src, len));
    };
    let mut stored = vec![2, 1, 0xe2, 1];
    for size in [5i32, 5, 21] {
        stored.extend(size.to_le_bytes());
    }
    stored.extend(b"bytes");
    // Compressor 7 of bytes that are not compressed.
    agree(&stored, 5);
    // A block at byte 16, whose offset, 16, is also the length of its split.
    let mut inside = vec![2, 1, 0x10, 1];
    for size in [16i32, 16, 36, 16] {
        inside.extend(size.to_le_bytes());
    }
    inside.extend(b"as many as these");
    agree(&inside, 16);
    // At byte 0, the versions and flags are that length.
    inside[16] = 0;
    assert!(decompress(&inside, 16, &mut [0; 16], &mut Scratch::default()).is_err());
    assert_eq!(c_decompress(&inside, 16), None);
    // Nothing, in elements and blocks of no size, by compressor 7.
    let mut nothing = vec![2, 9, 0xe8, 0];
    for size in [0i32, -1, 16] {
        nothing.extend(size.to_le_bytes());
    }
    agree(&nothing, 0);
    // Bytes after a zlib stream.
    let form = Form {
        compressor: "zlib",
        shuffle: 0,
        level: 5,
        typesize: 1,
        blocksize: 0,
    };
    let data = [7; 300];
    let mut trailing = c_compress(&data, &form);
    trailing.extend([1, 2, 3]);
    let len = trailing.len() as i32;
    trailing[12..16].copy_from_slice(&len.to_le_bytes());
    let split = i32::from_le_bytes(trailing[20..24].try_into().unwrap()) + 3;
    trailing[20..24].copy_from_slice(&split.to_le_bytes());
    agree(&trailing, 300);
}

#[test]
fn an_empty_container() {
    let form = Form {
        compressor: "zstd",
        shuffle: 2,
        level: 7,
        typesize: 1,
        blocksize: 0,
    };
    let src = c_compress(&[], &form);
    decompress(&src, 0, &mut [], &mut Scratch::default()).unwrap();
    assert!(decompress(&src, 1, &mut [0], &mut Scratch::default()).is_err());
}
