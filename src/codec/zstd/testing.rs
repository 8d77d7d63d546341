//! zstd frames for tests, written by libzstd.

use ::zstd::zstd_safe::{CCtx, CParameter};

pub(super) struct Form {
    pub(super) content_size: bool,
    pub(super) checksum: bool,
    pub(super) level: i32,
}

pub(super) fn compress(data: &[u8], form: &Form) -> Vec<u8> {
    let mut context = CCtx::create();
    context
        .set_parameter(CParameter::CompressionLevel(form.level))
        .unwrap();
    context
        .set_parameter(CParameter::ContentSizeFlag(form.content_size))
        .unwrap();
    context
        .set_parameter(CParameter::ChecksumFlag(form.checksum))
        .unwrap();
    let mut out = Vec::with_capacity(::zstd::zstd_safe::compress_bound(data.len()));
    context.compress2(&mut out, data).unwrap();
    out
}

/// `head` bytes that compress a little, then `tail` zeros.
pub(super) fn planes(head: usize, tail: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut data: Vec<u8> = (0..head)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state & state >> 8 & state >> 16) as u8
        })
        .collect();
    data.resize(head + tail, 0);
    data
}

pub(super) const PLAIN: Form = Form {
    content_size: true,
    checksum: false,
    level: 13,
};
