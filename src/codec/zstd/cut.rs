//! Cutting a zstd frame before a tail of blocks that need not be decoded.
//!
//! A cut frame is a valid frame that ends earlier: its content size is smaller and another block is marked as the last.
//! [`FrameSummary::copy_cut`] writes it to a buffer, with a new header. [`FrameSummary::in_place_cut`] changes the frame where it is,
//! for frames that wait in a staging buffer for the GPU: it overwrites the content size, whose field must be wide enough,
//! and the header of the last block that is kept. The frame is then passed on with its shorter length.

use super::frame::{BlockKind, FrameSummary, MAGIC, blocks};

/// Where the frame header descriptor is, after the magic number.
const DESCRIPTOR_AT: usize = 4;

/// Where to cut a frame: after one of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Decoded bytes of the frame that is left.
    pub decoded_len: u64,
    /// Where the encoded bytes of the last block that is kept end.
    pub encoded_len: usize,
    /// Where the header of that block starts.
    pub last_block_at: usize,
}

/// What to change in a frame so that it ends before its tail, and how to change it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPlaceCut {
    /// Encoded bytes of the frame that is left.
    pub encoded_len: usize,
    /// Decoded bytes of the frame that is left.
    pub decoded_len: u64,
    content_size: u64,
    size_at: usize,
    size_width: usize,
    /// Where the header of the last block that is kept starts.
    last_block_at: usize,
}

impl InPlaceCut {
    /// Cuts `frame`, from whose summary this was made.
    pub fn apply(&self, frame: &mut [u8]) {
        self.write(frame, self.decoded_len, true);
    }

    /// Restores the frame.
    pub fn undo(&self, frame: &mut [u8]) {
        self.write(frame, self.content_size, false);
    }

    fn write(&self, frame: &mut [u8], content_size: u64, last: bool) {
        let field = encoded_size(content_size, self.size_width).unwrap_or(content_size);
        let to = self.size_at..self.size_at + self.size_width;
        for (to, byte) in frame
            .get_mut(to)
            .into_iter()
            .flatten()
            .zip(field.to_le_bytes())
        {
            *to = byte;
        }
        if let Some(byte) = frame.get_mut(self.last_block_at) {
            *byte = *byte & !1 | u8::from(last);
        }
    }
}

impl FrameSummary {
    /// Decoded bytes before the tail of zeros, if the frame can be cut there: it has a content size and a tail, and neither a
    /// checksum nor a dictionary.
    pub fn cut_len(&self) -> Option<u64> {
        let size = self.header.content_size?;
        let free = !self.header.checksum && self.header.dictionary_id == 0;
        (self.zero_tail > 0 && free).then_some(size - self.zero_tail)
    }

    /// Where to cut the frame before its tail of zeros. `None` if it cannot be cut, or no block comes before the tail.
    pub fn zero_cut(&self) -> Option<Cut> {
        let (last_block_at, encoded_len) = self.last_kept?;
        Some(Cut {
            decoded_len: self.cut_len()?,
            encoded_len,
            last_block_at,
        })
    }

    /// Whether decoding a cut copy is faster: not if the frame is long and the tail short.
    pub(super) fn pays(&self, cut: &Cut) -> bool {
        let tail = self
            .header
            .content_size
            .unwrap_or(0)
            .saturating_sub(cut.decoded_len);
        tail >= cut.encoded_len as u64 / 2
    }

    /// Appends to `out` a frame that decodes to the first `cut.decoded_len` bytes of `frame`, the frame of this summary. `None`, with
    /// nothing appended, if the cut is outside the frame.
    pub fn copy_cut(&self, cut: &Cut, frame: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let len = cut.decoded_len;
        let blocks = frame.get(self.header.len..cut.encoded_len)?;
        let last_header = cut.last_block_at.checked_sub(self.header.len)?;
        let start = out.len();
        // The content size has four or eight bytes, which can represent every value.
        let wide = u32::try_from(len).is_err();
        let single_segment = self.header.window_descriptor.is_none();
        out.reserve(14 + blocks.len());
        out.extend_from_slice(&MAGIC);
        out.push((if wide { 0xc0 } else { 0x80 }) | (if single_segment { 0x20 } else { 0 }));
        out.extend(self.header.window_descriptor);
        out.extend_from_slice(&len.to_le_bytes()[..if wide { 8 } else { 4 }]);
        let last = out.len() + last_header;
        out.extend_from_slice(blocks);
        match out.get_mut(last) {
            Some(byte) => *byte |= 1,
            None => {
                out.truncate(start);
                return None;
            }
        }
        Some(())
    }

    /// How to cut `frame`, the frame of this summary, at `cut` in place. `None` if nothing is left, or if the content size field is
    /// too small.
    pub fn in_place_cut(&self, cut: &Cut, frame: &[u8]) -> Option<InPlaceCut> {
        let content_size = self.header.content_size?;
        let Cut {
            decoded_len,
            encoded_len,
            last_block_at,
        } = *cut;
        if decoded_len == 0 {
            return None;
        }
        let single_segment = self.header.window_descriptor.is_none();
        let size_width = match frame.get(DESCRIPTOR_AT)? >> 6 {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => 8,
        };
        encoded_size(decoded_len, size_width)?;
        // In a single-segment frame, no block may be larger than the content, encoded or decoded.
        if single_segment {
            let largest = blocks(frame, &self.header)
                .map_while(Result::ok)
                .take_while(|block| block.header_at <= last_block_at)
                .filter(|block| !matches!(block.kind, BlockKind::Rle(0)))
                .map(|block| block.size as u64)
                .max();
            if largest.is_none_or(|size| size > decoded_len) {
                return None;
            }
        }
        Some(InPlaceCut {
            encoded_len,
            decoded_len,
            content_size,
            size_at: self.header.len.checked_sub(size_width)?,
            size_width,
            last_block_at,
        })
    }
}

/// A content size as stored in a field of `width` bytes; `None` if it does not fit.
fn encoded_size(size: u64, width: usize) -> Option<u64> {
    match width {
        1 => (size <= 0xff).then_some(size),
        2 => size.checked_sub(256).filter(|field| *field <= 0xffff),
        4 => (size <= u64::from(u32::MAX)).then_some(size),
        _ => Some(size),
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::ZstdContext;
    use super::super::testing::{Form, PLAIN, compress, planes};
    use super::*;
    use proptest::prelude::*;

    /// Cuts and decodes with libzstd; the decoded bytes and the length of the cut frame.
    fn cut(frame: &mut Vec<u8>) -> Option<(Vec<u8>, usize)> {
        let summary = FrameSummary::parse(frame).unwrap();
        let cut = summary.in_place_cut(&summary.zero_cut()?, frame)?;
        let before = frame.clone();
        cut.apply(frame);
        let mut out = vec![0xaa; cut.decoded_len as usize];
        let written = ZstdContext::default()
            .decompress_with_libzstd(&frame[..cut.encoded_len], &mut out)
            .unwrap();
        assert_eq!(written, out.len());
        let short = FrameSummary::parse(&frame[..cut.encoded_len]).unwrap();
        assert_eq!(short.header.content_size, Some(cut.decoded_len));
        assert_eq!((short.len, short.zero_tail), (cut.encoded_len, 0));
        cut.undo(frame);
        assert_eq!(*frame, before);
        Some((out, cut.encoded_len))
    }

    #[test]
    fn a_bit_shuffled_block() {
        let data = planes(100_000, 512 * 1024 - 100_000, 1);
        let mut frame = compress(&data, &PLAIN);
        let (out, len) = cut(&mut frame).unwrap();
        assert!(
            out.len() <= 128 * 1024 && len < frame.len(),
            "{}",
            out.len()
        );
        assert_eq!(out, data[..out.len()]);
        assert!(data[out.len()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn sizes_that_a_field_cannot_hold() {
        assert_eq!(encoded_size(255, 1), Some(255));
        assert_eq!(encoded_size(256, 1), None);
        assert_eq!(encoded_size(255, 2), None);
        assert_eq!(encoded_size(256, 2), Some(0));
        assert_eq!(encoded_size(65_792, 2), None);
        assert_eq!(encoded_size(1 << 32, 4), None);
        assert_eq!(encoded_size(u64::MAX, 8), Some(u64::MAX));
    }

    /// A frame made by hand: a raw block of `head`, then RLE blocks of zeros.
    fn by_hand(descriptor: u8, size: &[u8], head: &[u8], tails: &[usize]) -> Vec<u8> {
        let mut frame = 0xfd2f_b528_u32.to_le_bytes().to_vec();
        frame.push(descriptor);
        frame.extend(size);
        frame.extend(&((head.len() as u32) << 3).to_le_bytes()[..3]);
        frame.extend(head);
        for (i, tail) in tails.iter().enumerate() {
            let last = u32::from(i + 1 == tails.len());
            frame.extend(&((*tail as u32) << 3 | 2 | last).to_le_bytes()[..3]);
            frame.push(0);
        }
        frame
    }

    #[test]
    fn every_width_of_the_size() {
        let head: Vec<u8> = (1..=250u8).collect();
        let check = |descriptor: u8, size: &[u8], head: &[u8], tail: usize, is_cut: bool| {
            let mut frame = by_hand(descriptor, size, head, &[tail / 2, tail - tail / 2]);
            let mut whole = vec![0; head.len() + tail];
            let written = ZstdContext::default().decompress_with_libzstd(&frame, &mut whole);
            assert_eq!(written, Ok(whole.len()), "{descriptor:#x}");
            let out = cut(&mut frame).map(|(out, _)| out);
            assert_eq!(out, is_cut.then(|| head.to_vec()), "{descriptor:#x}");
        };
        check(0x20, &[254], &head, 4, true);
        check(0x60, &1000u16.to_le_bytes(), &head.repeat(4), 256, true);
        // 250 bytes are too few for a field of two bytes.
        check(0x60, &100u16.to_le_bytes(), &head, 106, false);
        check(0xa0, &100_250u32.to_le_bytes(), &head, 100_000, true);
        check(0xe0, &100_250u64.to_le_bytes(), &head, 100_000, true);
        // Nothing before the tail, or nothing but an empty block: there is nothing to decode, or libzstd is to judge.
        let frame = by_hand(0xa0, &100_000u32.to_le_bytes(), &[], &[100_000]);
        let summary = FrameSummary::parse(&frame).unwrap();
        let at = summary.zero_cut().unwrap();
        assert_eq!(summary.in_place_cut(&at, &frame), None);
    }

    /// A compressed block that is longer than what is left of the content does not fit the smaller window.
    #[test]
    fn blocks_larger_than_the_content() {
        let mut frame = by_hand(0xa0, &1250u32.to_le_bytes(), &[7; 1100], &[1000]);
        // Says that it is compressed, and so decodes to some 250 bytes.
        frame[9] |= 4;
        let summary = FrameSummary::parse(&frame).unwrap();
        assert_eq!(summary.cut_len(), Some(250));
        let at = summary.zero_cut().unwrap();
        assert_eq!(summary.in_place_cut(&at, &frame), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]
        #[test]
        fn a_cut_frame_is_a_prefix(
            head in 0usize..200_000, tail in 0usize..500_000, level in 1i32..8, checksum: bool, content_size: bool,
            seed: u64,
        ) {
            let form = Form { content_size, checksum, level };
            let data = planes(head, tail, seed);
            let mut frame = compress(&data, &form);
            if let Some((out, _)) = cut(&mut frame) {
                prop_assert!(content_size && !checksum);
                prop_assert_eq!(&out, &data[..out.len()]);
                prop_assert!(data[out.len()..].iter().all(|byte| *byte == 0));
            } else if content_size && !checksum && head > 65_792 {
                prop_assert_eq!(FrameSummary::parse(&frame).unwrap().zero_tail, 0);
            }
        }
    }
}
