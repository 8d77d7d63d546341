//! The literals of compressed zstd blocks: Huffman codes in one bit stream or four, RFC 8878, section 4.2.
//!
//! Used by [`decode`](super::decode). Input that is invalid, or might be rejected by libzstd, is `None`.

use std::ops::Range;

use super::bits::{above, load, top};
use super::fse::{FseDescription, FseTable, MAX_STATES, SymbolCodes, codes};

/// Bits of the longest code.
const MAX_LOG: u32 = 11;
/// Most weights in a description; the last symbol's weight follows from the others.
const MAX_WEIGHTS: usize = 255;
/// Weights as the symbols of a table.
const WEIGHTS: SymbolCodes = codes(0, MAX_LOG as usize + 1, &[]);
/// Symbols that are decoded from a stream between two loads.
const SYMBOLS_A_LOAD: usize = 5;

/// A decoding table of symbols.
pub(super) struct Huffman {
    /// By the next bits of the stream: the length of the code in the lower byte, the symbol in the upper.
    cells: [u16; 1 << MAX_LOG],
    /// The table for decoding weights.
    weights: FseTable,
}

impl Default for Huffman {
    fn default() -> Self {
        Huffman {
            cells: [0; 1 << MAX_LOG],
            weights: FseTable::of_one(WEIGHTS[0]),
        }
    }
}

impl Huffman {
    /// Reads the table at the start of `src` in the frame. Returns the start of the streams.
    #[inline(always)]
    pub(super) fn read(&mut self, frame: &[u8], src: Range<usize>) -> Option<usize> {
        let (&first, rest) = frame.get(src.clone())?.split_first()?;
        let mut weights = [0u8; MAX_WEIGHTS + 1];
        let (n, len) = if first >= 128 {
            let n = usize::from(first - 127);
            let bytes = rest.get(..n.div_ceil(2))?;
            for (pair, byte) in weights.chunks_exact_mut(2).zip(bytes) {
                pair.copy_from_slice(&[byte >> 4, byte & 15]);
            }
            (n, bytes.len())
        } else {
            let len = usize::from(first);
            let bytes = rest.get(..len)?;
            let end = src.start + 1 + len;
            (self.read_weights(frame, bytes, end, &mut weights)?, len)
        };
        self.set(&mut weights, n)?;
        Some(src.start + 1 + len)
    }

    /// Reads compressed weights from `src`, which ends at `end` in the frame. Returns their number.
    #[inline(always)]
    fn read_weights(
        &mut self,
        frame: &[u8],
        src: &[u8],
        end: usize,
        weights: &mut [u8; MAX_WEIGHTS + 1],
    ) -> Option<usize> {
        let mut rest = src;
        FseDescription::read(&mut rest, MAX_LOG as u8, 6)?.set(&mut self.weights, &WEIGHTS);
        let (log, cells) = (self.weights.log(), self.weights.cells());
        let (mut left, start) = above(frame, &(end - rest.len()..end))?;
        if left < start + 2 * log as usize {
            return None;
        }
        // Two states alternate. When too few bits are left for one, the other has the last symbol.
        let mut states = [0; 2];
        for state in &mut states {
            *state = top(load(frame, left)?, log);
            left -= log as usize;
        }
        let mut n = 0;
        loop {
            let mut word = load(frame, left)?;
            // No state takes more than six bits.
            for _ in 0..4 {
                if n + 2 > MAX_WEIGHTS {
                    return None;
                }
                let cell = cells[states[0] as usize % MAX_STATES];
                weights[n] = cell.value as u8;
                n += 1;
                if left < start + usize::from(cell.bits) {
                    weights[n] = cells[states[1] as usize % MAX_STATES].value as u8;
                    return Some(n + 1);
                }
                left -= usize::from(cell.bits);
                states = [
                    states[1],
                    u64::from(cell.next) + top(word, cell.bits.into()),
                ];
                word <<= cell.bits;
            }
        }
    }

    /// Builds the table from the weights of the first `n` symbols.
    #[inline(always)]
    fn set(&mut self, weights: &mut [u8; MAX_WEIGHTS + 1], n: usize) -> Option<()> {
        // Large enough for every weight & 15.
        let mut symbols_of = [0u16; 16];
        let mut total = 0u32;
        for weight in weights.get(..n)? {
            symbols_of[usize::from(weight & 15)] += 1;
            total += (1 << (weight & 15)) >> 1;
        }
        let log = total.checked_ilog2()? + 1;
        let left = (1u32 << log) - total;
        if log > MAX_LOG || !left.is_power_of_two() {
            return None;
        }
        let last = left.ilog2() + 1;
        *weights.get_mut(n)? = last as u8;
        symbols_of[last as usize] += 1;
        if symbols_of[1] < 2 || symbols_of[1] % 2 == 1 {
            return None;
        }
        // Symbols by weight, in order.
        let mut starts = [0u16; 16];
        let mut all = 0;
        for (start, n) in starts.iter_mut().zip(symbols_of) {
            *start = all;
            all += n;
        }
        let mut sorted = [0u8; MAX_WEIGHTS + 1];
        for (symbol, weight) in weights.get(..=n)?.iter().enumerate() {
            let to = &mut starts[usize::from(weight & 15)];
            sorted[usize::from(*to) % 256] = symbol as u8;
            *to += 1;
        }
        // Longer codes come first. The table always has `MAX_LOG` bits. The weights' sum, a power of two, fills it exactly.
        let mut sorted = sorted.iter().skip(usize::from(symbols_of[0]));
        let mut cells = &mut self.cells[..];
        for weight in 1..=log {
            let len = 1usize << (weight - 1 + MAX_LOG - log);
            let bits = (log + 1 - weight) as u16;
            for symbol in sorted
                .by_ref()
                .take(usize::from(symbols_of[weight as usize]))
            {
                let (to, rest) = cells.split_at_mut_checked(len)?;
                to.fill(u16::from(*symbol) << 8 | bits);
                cells = rest;
            }
        }
        cells.is_empty().then_some(())
    }

    /// Decodes one stream, the bytes `src` of the frame, into all of `out`.
    #[inline(always)]
    pub(super) fn one(&self, frame: &[u8], src: Range<usize>, out: &mut [u8]) -> Option<()> {
        let (left, start) = above(frame, &src)?;
        self.finish(frame, left, start, out)
    }

    /// Decodes four streams, each a quarter of `out`.
    #[inline(always)]
    pub(super) fn four(&self, frame: &[u8], src: Range<usize>, out: &mut [u8]) -> Option<()> {
        let (sizes, _) = frame.get(src.clone())?.split_first_chunk::<6>()?;
        let mut at = src.start + 6;
        let quarter = out.len().div_ceil(4);
        let mut left = [0usize; 4];
        let mut starts = [0usize; 4];
        for i in 0..4 {
            let end = match sizes.get(2 * i..2 * i + 2) {
                Some(size) => at + usize::from(u16::from_le_bytes([size[0], size[1]])),
                None => src.end,
            };
            if end > src.end || end <= at {
                return None;
            }
            (left[i], starts[i]) = above(frame, &(at..end))?;
            at = end;
        }
        let (a, rest) = out.split_at_mut_checked(quarter)?;
        let (b, rest) = rest.split_at_mut_checked(quarter)?;
        let (c, d) = rest.split_at_mut_checked(quarter)?;
        if d.is_empty() {
            return None;
        }
        let mut done = 0;
        {
            // Bits are shifted out at the top. The lowest bit of a word is set when it is loaded, so its position later is the
            // number of bits that were read.
            let mut bytes = [0; 4];
            let mut words = [0; 4];
            for i in 0..4 {
                bytes[i] = left[i].div_ceil(8).checked_sub(8)?;
                words[i] = word_at(frame, bytes[i])? << (left[i].wrapping_neg() & 7);
            }
            let mut a = a.as_chunks_mut::<SYMBOLS_A_LOAD>().0;
            let mut b = b.as_chunks_mut::<SYMBOLS_A_LOAD>().0;
            let mut c = c.as_chunks_mut::<SYMBOLS_A_LOAD>().0;
            let mut d = d.as_chunks_mut::<SYMBOLS_A_LOAD>().0;
            loop {
                // The number of iterations for which every stream has seven more bytes than the loaded ones.
                let mut n = d.len();
                for i in 0..4 {
                    n = n.min((bytes[i] + 7).saturating_sub(starts[i] / 8) / 7);
                }
                if n == 0 {
                    break;
                }
                let (now_a, now_b, now_c, now_d);
                (now_a, a) = a.split_at_mut(n);
                (now_b, b) = b.split_at_mut(n);
                (now_c, c) = c.split_at_mut(n);
                (now_d, d) = d.split_at_mut(n);
                for (((a, b), c), d) in now_a.iter_mut().zip(now_b).zip(now_c).zip(now_d) {
                    let mut outs = [a, b, c, d];
                    for k in 0..SYMBOLS_A_LOAD {
                        for (word, out) in words.iter_mut().zip(&mut outs) {
                            let cell = self.cells[(*word >> (64 - MAX_LOG)) as usize];
                            *word <<= cell & 63;
                            out[k] = (cell >> 8) as u8;
                        }
                    }
                    for i in 0..4 {
                        let taken = words[i].trailing_zeros();
                        bytes[i] = bytes[i].wrapping_sub(taken as usize / 8);
                        words[i] = word_at(frame, bytes[i])? << (taken % 8);
                    }
                }
                done += n * SYMBOLS_A_LOAD;
            }
            for i in 0..4 {
                left[i] = (bytes[i] + 8) * 8 - words[i].trailing_zeros() as usize;
            }
        }
        for (i, out) in [a, b, c, d].into_iter().enumerate() {
            self.finish(frame, left[i], starts[i], out.get_mut(done..)?)?;
        }
        Some(())
    }

    /// Decodes the rest of a stream, from bit `left` down to bit `start`, into `out`.
    #[inline(always)]
    fn finish(&self, frame: &[u8], mut left: usize, start: usize, out: &mut [u8]) -> Option<()> {
        for chunk in out.chunks_mut(SYMBOLS_A_LOAD) {
            let mut word = load(frame, left)?;
            for byte in chunk {
                let cell = self.cells[(word >> (64 - MAX_LOG)) as usize];
                word <<= cell & 63;
                left -= usize::from(cell & 0xff);
                *byte = (cell >> 8) as u8;
            }
            if left < start {
                return None;
            }
        }
        (left == start).then_some(())
    }
}

/// Eight bytes of the frame, with the lowest bit set.
#[inline(always)]
fn word_at(frame: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*frame.get(at..)?.first_chunk::<8>()?) | 1)
}
