//! Any bytes as a zstd frame: leaving out a tail of zeros, or of copies of a plane, accepts the same frames and gives the same
//! bytes as libzstd.

use crate::codec::zstd::ZstdContext;
use crate::codec::zstd::frame::FrameSummary;
use crate::codec::zstd::prefix::decompress_prefix;
use crate::codec::zstd::tail::{RepeatedTail, decompress_planes};

/// Larger outputs only make fuzzing slow.
const MAX_LEN: u64 = 1 << 20;

/// The target's body.
pub fn check(data: &[u8]) {
    let Some((needed, frame)) = data.split_first_chunk::<4>() else {
        return;
    };
    let summary = FrameSummary::parse(frame);
    let len = match summary
        .as_ref()
        .ok()
        .and_then(|summary| summary.header.content_size)
    {
        Some(len) if len <= MAX_LEN => len as usize,
        Some(_) => return,
        None => 1000,
    };
    let needed = u32::from_le_bytes(*needed) as usize % (len + 1);
    let mut ours = vec![0xaa; len];
    let prefix = decompress_prefix(frame, &mut ours, needed, &mut ZstdContext::default());

    let mut theirs = vec![0x55; len];
    let written = zstd::zstd_safe::decompress(theirs.as_mut_slice(), frame);
    assert_eq!(prefix.is_ok(), written == Ok(len));
    if let Ok(prefix) = prefix {
        assert!(prefix.zero_from <= prefix.valid && prefix.valid >= needed);
        assert_eq!(ours[..prefix.valid], theirs[..prefix.valid]);
        assert!(theirs[prefix.zero_from..].iter().all(|byte| *byte == 0));
        assert!(ours[prefix.valid..].iter().all(|byte| *byte == 0xaa));
    }

    // As planes: of the period that the frame has, and of whatever length.
    let tail = summary
        .ok()
        .and_then(|summary| RepeatedTail::find(&summary, frame));
    let period = tail.map_or(0, |tail| tail.period as usize);
    for plane_len in [period, len / 8, needed] {
        let mut ours = vec![0xaa; len];
        let planes = decompress_planes(frame, &mut ours, plane_len, &mut ZstdContext::default());
        assert_eq!(planes.is_ok(), written == Ok(len));
        let Ok(planes) = planes else {
            continue;
        };
        assert!(!planes.repeats || planes.written >= plane_len && plane_len > 0);
        for i in planes.written..len {
            ours[i] = if planes.repeats {
                ours[i - plane_len]
            } else {
                0
            };
        }
        assert_eq!(ours, theirs);
    }
}
