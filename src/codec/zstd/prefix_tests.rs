//! Tests of cutting zstd frames, against libzstd.

use proptest::prelude::*;

use super::super::frame::{FrameHeader, MAGIC};
use super::super::testing::{Form, PLAIN, compress, planes};
use super::*;

#[test]
fn a_bit_shuffled_block_is_cut() {
    let data = planes(100_000, 512 * 1024 - 100_000, 1);
    let frame = compress(&data, &PLAIN);
    let summary = FrameSummary::parse(&frame).unwrap();
    assert_eq!(summary.len, frame.len());
    assert_eq!(summary.header.content_size, Some(512 * 1024));
    assert!(
        summary.zero_tail >= 3 * 128 * 1024 && summary.blocks[1] >= 3,
        "{summary:?}"
    );
    let mut dst = vec![0xaa; data.len()];
    let prefix = decompress_prefix(&frame, &mut dst, 0, &mut ZstdContext::default()).unwrap();
    assert_eq!(prefix.zero_from as u64, summary.cut_len().unwrap());
    assert_eq!(prefix.valid, prefix.zero_from);
    assert_eq!(dst[..prefix.valid], data[..prefix.valid]);
    assert!(dst[prefix.valid..].iter().all(|b| *b == 0xaa));
    let needed = prefix.zero_from + 17;
    let prefix = decompress_prefix(&frame, &mut dst, needed, &mut ZstdContext::default()).unwrap();
    assert_eq!(prefix.valid, needed);
    assert_eq!(dst[..needed], data[..needed]);
}

#[test]
fn what_cannot_be_cut_is_decoded_whole() {
    let data = planes(1000, 300_000, 2);
    let mut context = ZstdContext::default();
    let forms = [
        Form {
            checksum: true,
            ..PLAIN
        },
        Form {
            content_size: false,
            ..PLAIN
        },
    ];
    for form in forms {
        let frame = compress(&data, &form);
        let mut dst = vec![0xaa; data.len()];
        let prefix = decompress_prefix(&frame, &mut dst, 0, &mut context).unwrap();
        assert_eq!(
            prefix,
            Prefix {
                valid: data.len(),
                zero_from: data.len()
            }
        );
        assert_eq!(dst, data);
    }
    // A broken checksum is found.
    let mut frame = compress(
        &data,
        &Form {
            checksum: true,
            ..PLAIN
        },
    );
    *frame.last_mut().unwrap() ^= 1;
    let mut dst = vec![0; data.len()];
    assert!(decompress_prefix(&frame, &mut dst, 0, &mut context).is_err());
    // Two frames in a row are one content.
    let mut frames = compress(&data, &PLAIN);
    frames.extend(compress(&data, &PLAIN));
    let mut dst = vec![0; 2 * data.len()];
    decompress_prefix(&frames, &mut dst, 0, &mut context).unwrap();
    assert_eq!(dst, [data.clone(), data.clone()].concat());
}

#[test]
fn all_zero() {
    // One segment of 128 KiB in one RLE block; libzstd writes no such frame, but reads it.
    let mut frame = MAGIC.to_vec();
    frame.push(0xa0);
    frame.extend(131_072u32.to_le_bytes());
    frame.extend([3, 0, 0x10, 0]);
    let mut dst = vec![0xaa; 131_072];
    let mut context = ZstdContext::default();
    let prefix = decompress_prefix(&frame, &mut dst, 0, &mut context).unwrap();
    assert_eq!(
        prefix,
        Prefix {
            valid: 0,
            zero_from: 0
        }
    );
    let prefix = decompress_prefix(&frame, &mut dst, 100, &mut context).unwrap();
    assert_eq!(prefix.valid, 100);
    assert!(dst[..100].iter().all(|b| *b == 0));
    let mut whole = vec![1; dst.len()];
    assert_eq!(
        context.decompress_with_libzstd(&frame, &mut whole),
        Ok(dst.len())
    );
    // The wrong size is an error, not a short answer.
    assert!(decompress_prefix(&frame, &mut dst[..5], 0, &mut context).is_err());
}

/// Found by fuzzing: a frame of zeros alone was accepted without asking libzstd, which refuses windows of this size.
#[test]
fn windows_are_limited() {
    let mut dst = vec![0xaa; 1000];
    let mut context = ZstdContext::default();
    for exponent in 0..32u8 {
        let mut frame = MAGIC.to_vec();
        frame.extend([0x80, exponent << 3]);
        frame.extend(1000u32.to_le_bytes());
        frame.extend([0x43, 0x1f, 0, 0]);
        let summary = FrameSummary::parse(&frame);
        let written = context.decompress_with_libzstd(&frame, &mut dst);
        assert_eq!(summary.is_ok(), written == Ok(1000), "2^{}", 10 + exponent);
        let prefix = decompress_prefix(&frame, &mut dst, 0, &mut context);
        assert_eq!(prefix.is_ok(), written == Ok(1000), "2^{}", 10 + exponent);
    }
    let error = FrameHeader::parse(&[&MAGIC[..], &[0x80, 0xf6, 0, 0, 0, 0]].concat());
    assert!(error.unwrap_err().contains("a window of 2^40 bytes"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn prefix_is_the_content(
        head in 0usize..300_000, tail in 0usize..500_000, needed in 0usize..800_000, level in 1i32..8,
        content_size: bool, checksum: bool, seed: u64,
    ) {
        let data = planes(head, tail, seed);
        let frame = compress(&data, &Form { content_size, checksum, level });
        let mut dst = vec![0xaa; data.len()];
        let prefix = decompress_prefix(&frame, &mut dst, needed, &mut ZstdContext::default()).unwrap();
        prop_assert!(prefix.zero_from <= prefix.valid && prefix.valid <= data.len());
        prop_assert!(prefix.valid >= needed.min(data.len()));
        prop_assert_eq!(&dst[..prefix.valid], &data[..prefix.valid]);
        prop_assert!(data[prefix.zero_from..].iter().all(|b| *b == 0));
    }

    /// Whatever happens to a frame: what we accept, libzstd decodes to the same.
    #[test]
    fn damaged_frames(
        head in 0usize..3000, tail in 0usize..300_000, checksum: bool, seed: u64,
        flips in prop::collection::vec((0usize..100_000, any::<u8>()), 0..4), cut in 0usize..200,
    ) {
        let data = planes(head, tail, seed);
        let mut frame = compress(&data, &Form { content_size: true, checksum, level: 3 });
        for (at, value) in flips {
            // Mostly in the headers.
            let len = frame.len();
            let at = if at % 2 == 0 { at % len } else { at % len.min(24) };
            frame[at] ^= value;
        }
        frame.truncate(frame.len().saturating_sub(cut / 20));
        let mut context = ZstdContext::default();
        let mut dst = vec![0xaa; data.len()];
        let ours = decompress_prefix(&frame, &mut dst, data.len(), &mut context);
        let mut whole = vec![0x55; data.len()];
        let theirs = context.decompress_with_libzstd(&frame, &mut whole);
        prop_assert_eq!(ours.is_ok(), theirs == Ok(data.len()));
        if ours.is_ok() {
            prop_assert_eq!(&dst, &whole);
        }
    }
}
