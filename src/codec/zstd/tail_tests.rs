//! Tests of tails that repeat, and of reading sequences, against libzstd.

use super::super::frame::FrameHeader;
use super::super::testing::{Form, PLAIN, compress};
use super::*;
use proptest::prelude::*;

/// A generator of bytes.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Whether something happens that does so this often in 10,000.
    fn chance(&mut self, rate: u32) -> bool {
        (self.next() >> 32) % 10_000 < u64::from(rate)
    }
}

/// Genotypes.
#[derive(Debug, Clone)]
struct Calls {
    plane_len: usize,
    /// How often a code is 1, 2 or 3, -1, -2, in 10,000.
    rates: [u32; 4],
    seed: u64,
}

impl Calls {
    /// Their bit-planes.
    fn planes(&self) -> Vec<u8> {
        let mut noise = Noise(self.seed | 1);
        let mut out = vec![0; 8 * self.plane_len];
        let [alt, other, missing, fill] = self.rates;
        let mut sites = other;
        for i in 0..8 * self.plane_len {
            if i % 3000 == 0 {
                // Few sites have more than two alleles.
                sites = if noise.chance(500) { other } else { 0 };
            }
            let code = if noise.chance(missing) {
                -1i8
            } else if noise.chance(fill) {
                -2
            } else if noise.chance(sites) {
                2 + i8::from(noise.chance(5000))
            } else {
                i8::from(noise.chance(alt))
            };
            for (k, plane) in out.chunks_exact_mut(self.plane_len).enumerate() {
                plane[i / 8] |= (code as u8 >> k & 1) << (i % 8);
            }
        }
        out
    }
}

fn calls(largest: usize) -> impl Strategy<Value = Calls> {
    let rate = || prop_oneof![Just(0u32), 1u32..100, 0u32..2000];
    let plane_len = prop_oneof![
        Just(65_536usize),
        Just(98 * 1024),
        Just(39_820),
        1usize..65_536
    ];
    (plane_len, [rate(), rate(), rate(), rate()], any::<u64>()).prop_map(
        move |(plane_len, rates, seed)| Calls {
            plane_len: plane_len.min(largest),
            rates,
            seed,
        },
    )
}

/// Decodes and fills in what is left out.
fn whole(frame: &[u8], len: usize, plane_len: usize) -> Result<(Vec<u8>, Planes), CodecError> {
    let mut dst = vec![0xaa; len];
    let planes = decompress_planes(frame, &mut dst, plane_len, &mut ZstdContext::default())?;
    assert!(planes.written <= len);
    for i in planes.written..len {
        dst[i] = if planes.repeats {
            dst[i - plane_len]
        } else {
            0
        };
    }
    Ok((dst, planes))
}

/// Five in a hundred calls are missing, and some sites have more alleles: what is left are planes 0, 1 and 2.
fn usual() -> (Vec<u8>, Vec<u8>) {
    let calls = Calls {
        plane_len: 65_536,
        rates: [300, 1000, 500, 0],
        seed: 7,
    };
    let planes = calls.planes();
    let frame = compress(&planes, &Form { level: 7, ..PLAIN });
    (planes, frame)
}

fn find(frame: &[u8]) -> Option<RepeatedTail> {
    RepeatedTail::find(&FrameSummary::parse(frame).unwrap(), frame)
}

#[test]
fn a_block_with_missing_calls() {
    let (data, frame) = usual();
    let tail = find(&frame).unwrap();
    assert_eq!((tail.period, tail.cut.decoded_len), (65_536, 4 * 65_536));
    assert!(tail.from <= 4 * 65_536, "{tail:?}");
    let n = tail.planes(65_536).unwrap();
    assert!((3..=4).contains(&n), "{tail:?}");
    assert_eq!(tail.planes(65_535), None);
    assert_eq!(tail.planes(0), None);
    for (at, byte) in &tail.literals {
        assert_eq!(data[*at as usize], *byte);
    }
    let (found, planes) = whole(&frame, data.len(), 65_536).unwrap();
    assert_eq!(
        planes,
        Planes {
            written: n * 65_536,
            repeats: true
        }
    );
    assert!(found == data);
    // Not as planes: all of it.
    for plane_len in [0, 1, 32_768, 131_072] {
        let mut dst = vec![0; data.len()];
        let planes = decompress_planes(&frame, &mut dst, plane_len, &mut ZstdContext::default());
        assert_eq!(planes.unwrap().written, data.len());
        assert!(dst == data);
    }
}

/// The blocks of a frame.
fn all_blocks(frame: &[u8]) -> Vec<Block> {
    let header = FrameHeader::parse(frame).unwrap();
    blocks(frame, &header).map(Result::unwrap).collect()
}

/// A literal in the tail that is not what the plane before has there: a valid frame, which is no repetition.
#[test]
fn another_literal() {
    let (data, mut frame) = usual();
    let last = all_blocks(&frame).pop().unwrap();
    let at = last.payload.start + 1;
    let parts = Parts::of(&frame[last.payload.clone()]).unwrap();
    assert_eq!(parts.literals.get(0), Some(frame[at]));
    frame[at] ^= 0x10;
    let mut expected = vec![0; data.len()];
    let written = ZstdContext::default().decompress_with_libzstd(&frame, &mut expected);
    assert_eq!(written, Ok(data.len()));
    assert!(expected != data);
    let (found, planes) = whole(&frame, data.len(), 65_536).unwrap();
    assert_eq!(planes.written, data.len());
    assert!(found == expected);
    // In all blocks of the tail: it is one, until the literal is compared.
    let first = &all_blocks(&frame)[2];
    let at = first.payload.start + 1;
    frame[at] ^= 0x10;
    let tail = find(&frame).unwrap();
    assert!(
        tail.literals
            .iter()
            .any(|(at, byte)| data[*at as usize] != *byte)
    );
    ZstdContext::default()
        .decompress_with_libzstd(&frame, &mut expected)
        .unwrap();
    let (found, planes) = whole(&frame, data.len(), 65_536).unwrap();
    assert_eq!(planes.written, data.len());
    assert!(found == expected);
}

#[test]
fn frames_with_checksums_or_without_size_are_not_cut() {
    let (data, _) = usual();
    for (checksum, content_size) in [(true, true), (false, false)] {
        let form = Form {
            checksum,
            content_size,
            level: 7,
        };
        let mut frame = compress(&data, &form);
        assert_eq!(find(&frame), None);
        let (found, planes) = whole(&frame, data.len(), 65_536).unwrap();
        assert!(found == data && planes.written == data.len());
        if checksum {
            *frame.last_mut().unwrap() ^= 1;
            assert!(whole(&frame, data.len(), 65_536).is_err());
        }
    }
}

/// Every single bit of the blocks of the tail and of the block before it, in turn.
#[test]
fn every_bit_of_the_tail() {
    let (data, frame) = usual();
    let from = all_blocks(&frame)[1].header_at;
    let mut context = ZstdContext::default();
    let (mut expected, mut cuts) = (vec![0; data.len()], 0);
    let bits = 8 * from..8 * frame.len();
    // Some of the block before, which is longer, and all of the tail.
    let tail = 8 * all_blocks(&frame)[2].header_at;
    for bit in bits.filter(|bit| *bit >= tail || bit % 7 == 0) {
        let mut frame = frame.clone();
        frame[bit / 8] ^= 1 << (bit % 8);
        let written = context.decompress_with_libzstd(&frame, &mut expected);
        match whole(&frame, data.len(), 65_536) {
            Ok((found, planes)) => {
                assert_eq!(written, Ok(data.len()), "bit {bit}");
                assert!(found == expected, "bit {bit}");
                cuts += usize::from(planes.repeats);
            }
            Err(_) => assert!(written != Ok(data.len()), "bit {bit}"),
        }
    }
    assert!(cuts > 0);
    for len in (from..frame.len()).step_by(3) {
        assert!(whole(&frame[..len], data.len(), 65_536).is_err(), "{len}");
    }
}

/// Reads the sequences of all blocks; how many, and with tables written how.
fn read_sequences(frame: &[u8], data: &[u8]) -> usize {
    let mut history = History::START;
    let (mut at, mut n) = (0usize, 0);
    for block in all_blocks(frame) {
        if block.kind != BlockKind::Compressed {
            at += block.size;
            continue;
        }
        let parts = Parts::of(&frame[block.payload]).unwrap();
        let mut literal = 0;
        let read = parts.sequences(&mut history, |sequence| {
            for i in 0..sequence.literals {
                let known = parts.literals.get(literal + i);
                assert!(known.is_none_or(|byte| byte == data[at + i as usize]));
            }
            literal += sequence.literals;
            at += sequence.literals as usize;
            let (offset, len) = (sequence.offset? as usize, sequence.length as usize);
            assert!(offset <= at, "an offset of {offset} at {at}");
            for i in at..at + len {
                assert_eq!(data[i], data[i - offset]);
            }
            at += len;
            n += 1;
            Some(())
        });
        assert_eq!(read, Some(()));
        at += (parts.literals.len() - literal) as usize;
    }
    assert_eq!(at, data.len());
    n
}

/// Bytes of which many repeat, at all distances.
fn repetitive(len: usize, seed: u64, letters: u64, fresh: u32) -> Vec<u8> {
    let mut noise = Noise(seed | 1);
    let mut data: Vec<u8> = Vec::with_capacity(len);
    while data.len() < len {
        if data.is_empty() || noise.chance(fresh) {
            for _ in 0..noise.next() % 40 {
                data.push((noise.next() >> 20) as u8 % letters.max(1) as u8);
            }
        } else {
            let back = (noise.next() >> (noise.next() % 64)) as usize % data.len() + 1;
            let len = (noise.next() >> (noise.next() % 64)) as usize % 70_000;
            let start = data.len() - back;
            (0..len).for_each(|i| data.push(data[start + i]));
        }
    }
    data.truncate(len);
    data
}

#[test]
fn sequences_of_genotypes() {
    let (data, frame) = usual();
    assert!(read_sequences(&frame, &data) > 1000);
}

/// A plane, and a block that is a copy of it and begins with this header of its literals, which are none.
fn copied_plane(literals: &[u8]) -> (Vec<u8>, Vec<u8>) {
    const PLANE: usize = 1 << 17;
    let mut noise = Noise(5);
    let mut data: Vec<u8> = (0..PLANE).map(|_| noise.next() as u8).collect();
    // A frame of one segment, whose content size has four bytes.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend((2 * PLANE as u32).to_le_bytes());
    frame.extend(&((PLANE as u32) << 3).to_le_bytes()[..3]);
    frame.extend(&data);
    // One sequence, its codes without tables; above its bits is the mark of their end.
    let bits: u64 = 1 << 33 | 3 << 16 | 0xfffd;
    let sequence = [&[1, 0x54, 0, 17, 52][..], &bits.to_le_bytes()[..5]].concat();
    let len = (literals.len() + sequence.len()) as u32;
    frame.extend(&(len << 3 | 2 << 1 | 1).to_le_bytes()[..3]);
    frame.extend(literals);
    frame.extend(sequence);
    data.extend_from_within(..);
    (data, frame)
}

/// What libzstd refuses in a block that could be cut off is refused.
#[test]
fn literals_of_the_tail() {
    let (data, frame) = copied_plane(&[0]);
    assert_eq!(find(&frame).unwrap().planes(1 << 17), Some(1));
    assert!(whole(&frame, data.len(), 1 << 17).unwrap().0 == data);
    // None, compressed: by a table of earlier blocks, of which there is none; and in four streams.
    for literals in [[3, 0, 0], [6, 0, 0]] {
        let (data, frame) = copied_plane(&literals);
        assert!(find(&frame).is_none());
        let mut dst = vec![0; data.len()];
        assert!(
            ZstdContext::default()
                .decompress_with_libzstd(&frame, &mut dst)
                .is_err()
        );
        assert!(whole(&frame, data.len(), 1 << 17).is_err());
    }
}

/// No literals, and a match of three bytes; the offset has the largest code, and all bits.
#[test]
fn the_largest_offset() {
    let block = [0, 1, 0x54, 0, 31, 0, 0xff, 0xff, 0xff, 0xff];
    let mut offsets = Vec::new();
    let read = Parts::of(&block)
        .unwrap()
        .sequences(&mut History::START.clone(), |sequence| {
            offsets.push((sequence.literals, sequence.length, sequence.offset));
            Some(())
        });
    assert_eq!(read, Some(()));
    assert_eq!(offsets, [(0, 3, Some(u32::MAX - 3))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Every sequence that is read is one of the content: so are the tables, the bits, and the offsets that are used again.
    #[test]
    fn sequences_are_those_of_the_content(
        len in 0usize..400_000, seed: u64, letters in 1u64..=255, fresh in 0u32..10_000, level in 1i32..20,
    ) {
        let data = repetitive(len, seed, letters, fresh);
        let frame = compress(&data, &Form { level, ..PLAIN });
        read_sequences(&frame, &data);
    }

    #[test]
    fn planes_are_the_content(calls in calls(98 * 1024), level in 1i32..20, checksum: bool) {
        let data = calls.planes();
        let frame = compress(&data, &Form { level, checksum, content_size: true });
        let (found, planes) = whole(&frame, data.len(), calls.plane_len).unwrap();
        prop_assert!(found == data);
        prop_assert!(planes.written == data.len() || planes.written.is_multiple_of(calls.plane_len));
    }

    /// Whatever happens to a frame: what we accept, libzstd decodes to the same.
    #[test]
    fn damaged_frames(
        calls in calls(66_000), level in 1i32..12,
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0usize..600, any::<bool>(), any::<u8>()), 1..4),
        cut in 0usize..60,
    ) {
        let data = calls.planes();
        let mut frame = compress(&data, &Form { level, ..PLAIN });
        for (anywhere, near_end, near, value) in flips {
            let len = frame.len();
            let at = if near { len.saturating_sub(near_end + 1) } else { anywhere.index(len) };
            frame[at] ^= value;
        }
        frame.truncate(frame.len().saturating_sub(cut / 20));
        let mut expected = vec![0x55; data.len()];
        let theirs = ZstdContext::default().decompress_with_libzstd(&frame, &mut expected);
        match whole(&frame, data.len(), calls.plane_len) {
            Ok((found, _)) => {
                prop_assert_eq!(theirs, Ok(data.len()));
                prop_assert!(found == expected);
            }
            Err(_) => prop_assert!(theirs != Ok(data.len())),
        }
    }

    /// Any bytes as a block.
    #[test]
    fn any_bytes(block in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..=255, n in 0u8..4) {
        let mut block = block;
        // Sequences right at the start, often.
        block.splice(..0, [0, n, kind & 0xfc]);
        if let Some(parts) = Parts::of(&block) {
            let mut history = History::START;
            let _ = parts.sequences(&mut history, |_| Some(()));
            let _ = parts.skip(&mut history);
        }
    }
}
