//! Our decoder of zstd frames, of any bytes and of frames that libzstd wrote and something changed: what it decodes, libzstd decodes to
//! the same bytes.

use zstd::zstd_safe::{CCtx, CParameter, compress_bound, decompress};

use crate::codec::zstd::decode::Decoder;
use crate::codec::zstd::frame::{FrameSummary, blocks};

/// Larger outputs only make fuzzing slow.
const MAX_LEN: u64 = 1 << 20;

/// The target's body.
pub fn check(data: &[u8]) {
    let Some((&[form, level, window, n, grow], rest)) = data.split_first_chunk::<5>() else {
        return;
    };
    if form % 2 == 0 {
        check_frame(rest);
        return;
    }
    // A frame of the bytes, some times over, in which some bytes are changed. Of its levels: see `README.md`.
    let n = usize::from(n % 8);
    let Some((changes, content)) = rest.split_at_checked(3 * n) else {
        return;
    };
    let times = 1 + usize::from(grow % 16);
    let mut content: Vec<u8> = (0..times)
        .flat_map(|i| content.iter().map(move |byte| byte ^ (i as u8 & grow >> 4)))
        .collect();
    content.truncate(MAX_LEN as usize);
    let mut frame = compress(
        &content,
        i32::from(level % 13) - 7,
        10 + u32::from(window % 12),
    );
    if n == 0 {
        // All that libzstd writes, but for frames of next to nothing.
        assert!(check_frame(&frame) || frame.len() < 32);
        return;
    }
    for change in changes.as_chunks::<3>().0 {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % frame.len();
        frame[at] ^= change[2];
    }
    check_frame(&frame);
}

/// A frame of one content, which it says the size of.
pub fn compress(content: &[u8], level: i32, window_log: u32) -> Vec<u8> {
    let mut context = CCtx::create();
    let parameters = [
        CParameter::CompressionLevel(level),
        CParameter::WindowLog(window_log),
    ];
    for parameter in parameters {
        context.set_parameter(parameter).unwrap();
    }
    let mut frame = Vec::with_capacity(compress_bound(content.len()));
    context.compress2(&mut frame, content).unwrap();
    frame
}

/// Decodes a frame, all of it and its first blocks; whether we decode it.
pub fn check_frame(frame: &[u8]) -> bool {
    let Ok(summary) = FrameSummary::parse(frame) else {
        return false;
    };
    let Some(len) = summary.header.content_size.filter(|len| *len <= MAX_LEN) else {
        return false;
    };
    let frame = &frame[..summary.len];
    let len = len as usize;
    let mut theirs = vec![0x55; len];
    let written = decompress(theirs.as_mut_slice(), frame);
    let mut decoder = Decoder::default();
    let mut ours = vec![0xaa; len];
    let decoded = decoder.decode(frame, &summary, frame.len(), &mut ours);
    let is_ours = decoded == Some(len);
    if is_ours {
        assert_eq!(written, Ok(len));
        assert!(ours == theirs);
    }
    ours.fill(0xaa);
    let portably = decoder.decode_portably(frame, &summary, frame.len(), &mut ours);
    assert_eq!(portably, decoded);
    if !is_ours {
        return false;
    }
    assert!(ours == theirs);
    for block in blocks(frame, &summary.header) {
        let end = block.unwrap().payload.end;
        ours.fill(0xaa);
        let n = decoder.decode(frame, &summary, end, &mut ours).unwrap();
        assert!(ours[..n] == theirs[..n] && (n == len || end < frame.len()));
        // Exactly as much room as that is enough.
        let mut exactly = vec![0xaa; n];
        assert_eq!(decoder.decode(frame, &summary, end, &mut exactly), Some(n));
        assert!(exactly == theirs[..n]);
        if n > 0 {
            let short = decoder.decode(frame, &summary, end, &mut exactly[1..]);
            assert_eq!(short, None);
        }
    }
    true
}
