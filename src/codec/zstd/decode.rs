//! Decodes zstd frames of known content size, or their first blocks, faster than libzstd where they hold many sequences.
//!
//! Used by `zstd_frame` and `zstd_tail` through [`Scratch`](super::Scratch). It is here for the frames of genotypes, which are all
//! short matches. What it decodes, libzstd decodes to the same bytes: anything that is not valid, or is in a form that is rare, or is
//! faster with libzstd, is `None`, and libzstd is to decode the whole and to judge. The output may then have been written to.
//!
//! The format is RFC 8878. Blocks are taken apart by `zstd_sequences`; their literals are decoded by
//! `zstd_huffman`, their sequences by `zstd_execute`.

use std::ops::Range;

use super::execute::{Output, Sequences};
use super::frame::{BlockKind, FrameSummary, blocks};
use super::fse::{Table, codes};
use super::huffman::Huffman;
#[cfg(target_arch = "x86_64")]
use super::isa::{Avx2, usable};
use super::isa::{Isa, Portable};
use super::sequences::{CODINGS, Literals, Parts};

/// The most literals of a block.
const MAX_LITERALS: usize = 128 * 1024;
/// Bytes that may be read after the last literal.
const SLACK: usize = 64;
/// What is shorter is left to libzstd: it does less before the first byte.
const MIN_LEN: usize = 16 * 1024;
/// Huffman-coded literals for each sequence from which on libzstd is as fast.
const LITERALS_A_SEQUENCE: usize = 30;

/// Tables and buffers of a decoder, to be used again.
pub struct Decoder {
    huffman: Huffman,
    /// Of literals, offsets and matches.
    tables: [Table; 3],
    literals: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder {
            huffman: Huffman::default(),
            tables: [const { Table::of_one(codes(0, 0, &[])[0]) }; 3],
            literals: vec![0; MAX_LITERALS + SLACK],
        }
    }
}

/// What a block depends on, from the header of the frame and the blocks before.
struct State {
    /// Bytes that it may hold, at most.
    block_max: usize,
    has_huffman: bool,
    has_table: [bool; 3],
    offsets: [u32; 3],
}

impl Decoder {
    /// Decodes the blocks of `frame` up to `encoded_len`, where one of them must end, into `dst`; the number of bytes that they hold.
    /// `summary` is the one of `frame`.
    pub fn decode(
        &mut self,
        frame: &[u8],
        summary: &FrameSummary,
        encoded_len: usize,
        dst: &mut [u8],
    ) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if usable() {
            // SAFETY: the processor has these features.
            #[allow(unsafe_code)]
            return unsafe { decode_avx2(self, frame, summary, encoded_len, dst) };
        }
        self.decode_portably(frame, summary, encoded_len, dst)
    }

    /// [`decode`](Self::decode) with the instructions that every processor has.
    pub fn decode_portably(
        &mut self,
        frame: &[u8],
        summary: &FrameSummary,
        encoded_len: usize,
        dst: &mut [u8],
    ) -> Option<usize> {
        self.run(frame, summary, encoded_len, dst, Portable)
    }

    #[inline(always)]
    fn run(
        &mut self,
        frame: &[u8],
        summary: &FrameSummary,
        encoded_len: usize,
        dst: &mut [u8],
        isa: impl Isa,
    ) -> Option<usize> {
        if summary.header.checksum || summary.header.dictionary_id != 0 {
            return None;
        }
        let mut state = State {
            block_max: usize::try_from(summary.header.block_max()).ok()?,
            has_huffman: false,
            has_table: [false; 3],
            offsets: [1, 4, 8],
        };
        let mut at = 0;
        for block in blocks(frame, &summary.header) {
            let block = block.ok()?;
            let payload = frame.get(block.payload.clone())?;
            match block.kind {
                BlockKind::Raw => {
                    dst.get_mut(at..at + block.size)?.copy_from_slice(payload);
                    at += block.size;
                }
                BlockKind::Rle(byte) => {
                    dst.get_mut(at..at + block.size)?.fill(byte);
                    at += block.size;
                }
                BlockKind::Compressed => {
                    let end = self.block(frame, block.payload.clone(), dst, at, &mut state, isa)?;
                    if end - at > state.block_max {
                        return None;
                    }
                    at = end;
                }
            }
            if block.payload.end >= encoded_len {
                return (block.payload.end == encoded_len).then_some(at);
            }
        }
        None
    }

    /// Decodes a compressed block to `dst[at..]`; where it ends there.
    #[inline(always)]
    fn block(
        &mut self,
        frame: &[u8],
        payload: Range<usize>,
        dst: &mut [u8],
        at: usize,
        state: &mut State,
        isa: impl Isa,
    ) -> Option<usize> {
        let parts = Parts::of(frame.get(payload.clone())?)?;
        let n_literals = parts.literals.len() as usize;
        if n_literals > state.block_max {
            return None;
        }
        // Literals, with what may be read after them.
        let literals = match parts.literals {
            Literals::Raw(_) => frame.get(payload.start + parts.literals_at..)?,
            Literals::Rle(byte, _) => {
                self.literals.get_mut(..n_literals)?.fill(byte);
                &self.literals
            }
            Literals::Compressed(packed) => {
                let start = payload.start + parts.literals_at;
                let mut streams = start..start + packed.bytes.len();
                if !packed.repeat {
                    streams.start = self.huffman.read(frame, streams.clone())?;
                    state.has_huffman = true;
                }
                if !state.has_huffman || n_literals == 0 || payload.len() < 5 {
                    return None;
                }
                let to = self.literals.get_mut(..n_literals)?;
                if !packed.four {
                    self.huffman.one(frame, streams, to)?;
                } else if n_literals >= 6 && streams.len() >= 10 {
                    self.huffman.four(frame, streams, to)?;
                } else {
                    return None;
                }
                &self.literals
            }
        };
        let mut output = Output::new(dst, at, literals, n_literals);
        if parts.n_sequences > 0 {
            let (new, stream) = parts.new_tables()?;
            for (i, used) in new.iter().enumerate() {
                if let Some(used) = used {
                    used.set(&CODINGS[i], &mut self.tables[i]);
                    state.has_table[i] = true;
                }
            }
            if state.has_table.contains(&false) {
                return None;
            }
            let bits = payload.end - stream.len()..payload.end;
            let sequences = Sequences::new(frame, bits, &self.tables, state.offsets, isa)?;
            state.offsets = sequences.execute(parts.n_sequences, &mut output, isa)?;
        }
        output.end()
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn decode_avx2(
    decoder: &mut Decoder,
    frame: &[u8],
    summary: &FrameSummary,
    encoded_len: usize,
    dst: &mut [u8],
) -> Option<usize> {
    decoder.run(frame, summary, encoded_len, dst, Avx2)
}

/// Whether decoding `len` bytes here is faster than with libzstd: they are many, and come from sequences rather than literals, or from
/// neither.
pub(in crate::codec) fn pays(
    frame: &[u8],
    summary: &FrameSummary,
    encoded_len: usize,
    len: usize,
) -> bool {
    let (mut sequences, mut literals) = (0, 0);
    for block in blocks(frame, &summary.header) {
        let Ok(block) = block else {
            return false;
        };
        if block.kind == BlockKind::Compressed {
            let Some(parts) = frame.get(block.payload.clone()).and_then(Parts::of) else {
                return false;
            };
            sequences += parts.n_sequences;
            if let Literals::Compressed(packed) = parts.literals {
                literals += packed.len as usize;
            }
        }
        if block.payload.end >= encoded_len {
            break;
        }
    }
    literals <= LITERALS_A_SEQUENCE * sequences && (sequences == 0 || len >= MIN_LEN)
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
