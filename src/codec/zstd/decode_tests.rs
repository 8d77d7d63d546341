//! Tests of decoding zstd frames, against libzstd.

use proptest::prelude::*;

use super::super::sequences::Used;
use super::*;
use crate::codec::fuzz_corpus::zstd_decode::{check_frame, compress};
use crate::codec::testing::noise;

/// Bytes of which many repeat: `letters` different ones, matches that are no longer than `longest`, from at most `farthest` before.
fn repetitive(len: usize, seed: u64, letters: u64, longest: usize, farthest: usize) -> Vec<u8> {
    let mut numbers = noise(16 * len.min(100_000) + 1600, seed)
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect::<Vec<_>>()
        .into_iter()
        .cycle();
    let mut next = move || numbers.next().unwrap();
    let mut data: Vec<u8> = Vec::with_capacity(len);
    while data.len() < len {
        for _ in 0..next() >> (next() % 64) & 63 {
            data.push((next() % letters) as u8);
        }
        if let Some(most) = data.len().min(farthest).checked_sub(1) {
            let back = (next() >> (next() % 64)) as usize % (most + 1) + 1;
            let n = (next() >> (next() % 64)) as usize % longest;
            let start = data.len() - back;
            (0..n).for_each(|i| data.push(data[start + i]));
        }
    }
    data.truncate(len);
    data
}

/// Two planes of genotypes: rows that are like one of the rows before, but for some bits.
fn planes(len: usize, seed: u64) -> Vec<u8> {
    let noise = noise(2 * len, seed);
    let mut data = vec![0u8; len];
    for i in 0..len {
        let back = 368 * (1 + usize::from(noise[i / 368] % 4));
        let changed = u16::from_le_bytes([noise[2 * i], noise[2 * i + 1]]);
        data[i] = if i >= back { data[i - back] } else { 0 };
        if changed < 1200 {
            data[i] ^= 1 << (changed % 8);
        }
    }
    data
}

/// What blocks of the frame are made of: kinds of blocks, of literals, of tables.
fn forms(frame: &[u8], seen: &mut [[usize; 5]; 5]) {
    let summary = FrameSummary::parse(frame).unwrap();
    for block in blocks(frame, &summary.header) {
        let block = block.unwrap();
        let kind = match block.kind {
            BlockKind::Raw => 0,
            BlockKind::Rle(_) => 1,
            BlockKind::Compressed => 2,
        };
        seen[0][kind] += 1;
        if kind < 2 {
            continue;
        }
        let parts = Parts::of(&frame[block.payload]).unwrap();
        let literals = match parts.literals {
            Literals::Raw(_) => 0,
            Literals::Rle(..) => 1,
            Literals::Compressed(packed) if packed.repeat => 2,
            Literals::Compressed(packed) => 3 + usize::from(packed.four),
        };
        seen[1][literals] += 1;
        if parts.n_sequences > 0 {
            for (i, used) in parts.new_tables().unwrap().0.iter().enumerate() {
                let mode = match used {
                    None => 0,
                    Some(Used::Predefined(_)) => 1,
                    Some(Used::One(_)) => 2,
                    Some(Used::Described(_)) => 3,
                };
                seen[2 + i][mode] += 1;
            }
        }
    }
}

/// All that libzstd writes of many contents, at all its levels, is decoded, and every form of a block is among it.
#[test]
fn frames_of_libzstd() {
    let text = b"rs1234567\tPASS\tA,ATT\t0.5;".repeat(3000);
    let words: Vec<u8> = repetitive(150_000, 3, 20, 40, 1000);
    let contents = [
        planes(300_000, 1),
        planes(20_000, 2),
        repetitive(400_000, 3, 255, 70_000, usize::MAX),
        repetitive(200_000, 4, 3, 30, 60),
        repetitive(200_000, 5, 100, 10, 20_000),
        text,
        words,
        noise(200_000, 6),
        noise(70_000, 7).iter().map(|byte| byte % 16).collect(),
        noise(1000, 8).iter().map(|byte| byte % 4).collect(),
        (0..60_000u32).flat_map(|i| (i * i).to_le_bytes()).collect(),
        [noise(300, 9), vec![7; 500_000], noise(300, 9)].concat(),
        vec![0; 1_000_000],
        vec![1; 3],
        Vec::new(),
    ];
    let mut seen = [[0; 5]; 5];
    for content in &contents {
        for level in [-50, -5, -1, 1, 2, 3, 5, 7, 9, 13, 16, 22] {
            if content.len() > 100_000 && level > 9 {
                continue;
            }
            for window_log in [12, 20] {
                let frame = compress(content, level, window_log);
                assert!(check_frame(&frame), "{} {level}", content.len());
                forms(&frame, &mut seen);
            }
        }
    }
    // Literals that are all the same are not written as such.
    for (n_forms, seen) in [3, 5, 4, 4, 4].into_iter().zip(&seen) {
        let missing = seen[..n_forms].iter().filter(|n| **n == 0).count();
        assert_eq!(missing, usize::from(n_forms == 5), "{seen:?}");
    }
}

/// Every bit of a small frame, and of the headers and tables of a larger one.
#[test]
fn every_bit() {
    let small = compress(&repetitive(700, 11, 30, 40, 300), 5, 17);
    let larger = compress(&planes(70_000, 12), 7, 17);
    let mut decoded = 0;
    for (frame, bytes) in [(&small, small.len()), (&larger, 300)] {
        for bit in 0..8 * bytes {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            decoded += usize::from(check_frame(&frame));
        }
    }
    // Some only change the content.
    assert!(decoded > 100, "{decoded}");
    for len in 0..small.len() {
        let summary = FrameSummary::parse(&small).unwrap();
        let size = summary.header.content_size.unwrap() as usize;
        let mut dst = vec![0; size];
        let mut decoder = Decoder::default();
        assert_eq!(
            decoder.decode(&small[..len], &summary, small.len(), &mut dst),
            None
        );
    }
}

/// A frame of one block of some kind: its content's size, and its bytes. The window is 128 KiB.
fn by_hand(size: u32, kind: u32, block_size: usize, block: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x80, 7 << 3];
    frame.extend(size.to_le_bytes());
    frame.extend(&((block_size as u32) << 3 | kind << 1 | 1).to_le_bytes()[..3]);
    frame.extend(block);
    frame
}

#[test]
fn handmade_frames_that_libzstd_does_not_write() {
    let ours = |frame: &[u8]| check_frame(frame);
    // Raw and RLE blocks, of nothing, too.
    assert!(ours(&by_hand(3, 0, 3, b"abc")));
    assert!(ours(&by_hand(0, 0, 0, b"")));
    assert!(ours(&by_hand(5, 1, 5, b"a")));
    assert!(!ours(&by_hand(4, 0, 3, b"abc")));
    // Literals only: raw and RLE, in headers that are longer than need be.
    assert!(ours(&by_hand(3, 2, 5, &[3 << 3, b'a', b'b', b'c', 0])));
    assert!(ours(&by_hand(30, 2, 4, &[0x1 | 0x4 | 14 << 4, 1, b'a', 0])));
    assert!(ours(&by_hand(
        30,
        2,
        5,
        &[0x1 | 0xc | 14 << 4, 1, 0, b'a', 0]
    )));
    // A byte after no sequences.
    assert!(!ours(&by_hand(3, 2, 6, &[3 << 3, b'a', b'b', b'c', 0, 0])));
    // One literal, and a match of three from one before: with predefined tables; with tables of one symbol each.
    let sequence = |offset: u32, literals: usize, extra: &[u8]| {
        let mut block = vec![(literals as u8) << 3];
        block.extend(&b"abcdefgh"[..literals]);
        block.extend([1, 0x54, literals as u8, offset as u8, 0]);
        block.extend(extra);
        by_hand(literals as u32 + 3, 2, block.len(), &block)
    };
    assert!(ours(&sequence(0, 1, &[1])));
    // More bits than are used, and none; no mark of the end.
    for extra in [&[2][..], &[], &[0], &[1, 0], &[1, 1]] {
        assert!(!ours(&sequence(0, 1, extra)), "{extra:?}");
    }
    // The second to last offset at the start is 4; the third is 8.
    assert!(!ours(&sequence(1, 3, &[2])));
    assert!(ours(&sequence(1, 4, &[2])));
    assert!(!ours(&sequence(1, 7, &[3])));
    assert!(ours(&sequence(1, 8, &[3])));
    // Without literals, the latest offset less one is 0.
    assert!(!ours(&sequence(1, 0, &[3])));
    // An offset of one to four, in two bits.
    assert!(ours(&sequence(2, 1, &[4])));
    assert!(!ours(&sequence(2, 1, &[5])));
    assert!(ours(&sequence(2, 2, &[5])));
    // The largest offset, in 31 bits, without literals and with one.
    for literals in 0..2 {
        assert!(!ours(&sequence(31, literals, &[0xff; 4])));
    }
    // Huffman-coded literals with a table of blocks before, of which there are none.
    assert!(!ours(&by_hand(4, 2, 6, &[3 | 4 << 4, 0x40, 0, 1, 1, 0])));
}

/// Blocks that hold more than they may: libzstd is to judge.
#[test]
fn long_blocks() {
    // One literal, then a match of as many bytes as its bits say and 65,539.
    let block = |length: u32| {
        let bits = (1u32 << 16 | (length - 65_539)).to_le_bytes();
        let mut block = vec![8, b'x', 1, 0x54, 1, 0, 52];
        block.extend(&bits[..3]);
        by_hand(length + 1, 2, block.len(), &block)
    };
    assert!(check_frame(&block(65_539)));
    assert!(check_frame(&block((1 << 17) - 1)));
    let mut dst = vec![0; 1 << 17 | 1];
    let frame = block(1 << 17);
    let summary = FrameSummary::parse(&frame).unwrap();
    assert_eq!(
        Decoder::default().decode(&frame, &summary, frame.len(), &mut dst),
        None
    );
}

#[test]
fn frames_that_are_left_to_libzstd() {
    let content = planes(50_000, 21);
    let frame = compress(&content, 5, 17);
    let mut with_checksum = frame.clone();
    with_checksum[4] |= 4;
    with_checksum.extend([0; 4]);
    let mut dst = vec![0; content.len()];
    let summary = FrameSummary::parse(&with_checksum).unwrap();
    let mut decoder = Decoder::default();
    assert_eq!(
        decoder.decode(&with_checksum, &summary, summary.len, &mut dst),
        None
    );
    // Nothing ends in the middle of a block.
    let summary = FrameSummary::parse(&frame).unwrap();
    for len in [0, 5, frame.len() - 1, frame.len() + 1] {
        assert_eq!(decoder.decode(&frame, &summary, len, &mut dst), None);
    }
    assert_eq!(
        decoder.decode(&frame, &summary, frame.len(), &mut dst),
        Some(content.len())
    );
    // What is short, or has many literals, is left to libzstd.
    let pays = |content: &[u8]| {
        let frame = compress(content, 5, 17);
        let summary = FrameSummary::parse(&frame).unwrap();
        super::pays(&frame, &summary, frame.len(), content.len())
    };
    assert!(pays(&content) && pays(&vec![7; 50_000]) && pays(&[]));
    assert!(!pays(&content[..10_000]));
    let letters: Vec<u8> = noise(50_000, 22).iter().map(|byte| byte % 100).collect();
    assert!(!pays(&letters));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn contents(
        len in 0usize..300_000, seed: u64, letters in 1u64..=256, longest in 1usize..3000, farthest in 1usize..200_000,
        level in -10i32..=13, window_log in 10u32..=20,
    ) {
        let content = repetitive(len, seed, letters, longest, farthest);
        // Sequences that start within the first bytes of a frame are left to libzstd.
        let content = [noise(16, seed), content].concat();
        prop_assert!(check_frame(&compress(&content, level, window_log)));
    }

    /// Whatever happens to a frame: what we decode, libzstd decodes to the same.
    #[test]
    fn damaged_frames(
        len in 1usize..150_000, seed: u64, letters in 1u64..=256, level in -5i32..=12,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 1u8..), 1..4),
    ) {
        let content = if letters % 2 == 0 { planes(len, seed) } else { repetitive(len, seed, letters, 100, 10_000) };
        let mut frame = compress(&content, level, 17);
        for (anywhere, at_start, value) in flips {
            let len = if at_start { frame.len().min(150) } else { frame.len() };
            frame[anywhere.index(len)] ^= value;
        }
        check_frame(&frame);
    }

    /// Any bytes as a compressed block.
    #[test]
    fn any_bytes(block in prop::collection::vec(any::<u8>(), 2..200), size in 0u32..400, kind in any::<[u8; 3]>()) {
        let mut block = block;
        // Often few literals, or none, and some sequences.
        if kind[0] % 2 == 0 {
            let literals = usize::from(kind[1] % 8).min(block.len() - 1);
            block.splice(..0, [(literals as u8) << 3]);
            block.splice(1 + literals..1 + literals, [1 + kind[2] % 4, kind[1] & 0xfc]);
        }
        check_frame(&by_hand(size, 2, block.len(), &block));
    }
}
