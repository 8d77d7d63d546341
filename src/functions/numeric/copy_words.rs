//! [`CopyWords`]: bit-planes transposed, so that the bits of a copy are next to each other.

/// Words of a copy.
pub const WORDS: usize = 2;
/// The bits of one copy, those of the first planes first.
pub type CopyWords = [u64; WORDS];
/// The most planes whose bits a copy's words hold.
pub const PLANES: usize = WORDS * BITS;
/// Planes that are transposed together, one for each bit of a word.
const BITS: usize = 64;
/// Words of a plane that are transposed together, so that a step of the transposition is one operation on vectors of words.
const LANES: usize = 8;

/// The bits of the copies of a plane of `width` words in up to [`PLANES`] planes, one after the other in `planes`.
pub fn copy_words(width: usize, planes: &[u64]) -> Vec<CopyWords> {
    let mut copies = vec![[0u64; WORDS]; width.saturating_mul(64)];
    if width == 0 {
        return copies;
    }
    let mut blocks = [[0u64; LANES]; BITS];
    for (at_word, planes) in (0..WORDS).zip(planes.chunks(width.saturating_mul(BITS))) {
        for (copies, at) in copies.chunks_mut(64 * LANES).zip((0..).step_by(LANES)) {
            blocks.fill([0; LANES]);
            for (row, plane) in blocks.iter_mut().zip(planes.chunks_exact(width)) {
                let words = plane.get(at..).unwrap_or(&[]);
                match words.first_chunk() {
                    Some(words) => *row = *words,
                    None => row.iter_mut().zip(words).for_each(|(to, word)| *to = *word),
                }
            }
            transpose(&mut blocks);
            for (lane, copies) in copies.chunks_mut(64).enumerate() {
                for (copy, row) in copies.iter_mut().zip(&blocks) {
                    copy[at_word] = row[lane];
                }
            }
        }
    }
    copies
}

/// In each lane, bit `c` of word `r` becomes bit `r` of word `c`.
fn transpose(blocks: &mut [[u64; LANES]; BITS]) {
    exchange::<32>(blocks, 0x0000_0000_ffff_ffff);
    exchange::<16>(blocks, 0x0000_ffff_0000_ffff);
    exchange::<8>(blocks, 0x00ff_00ff_00ff_00ff);
    exchange::<4>(blocks, 0x0f0f_0f0f_0f0f_0f0f);
    exchange::<2>(blocks, 0x3333_3333_3333_3333);
    exchange::<1>(blocks, 0x5555_5555_5555_5555);
}

/// Of rows that are `HALF` apart, exchanges the bits of the first that are not in `low` and those of the second that are.
#[inline(always)]
fn exchange<const HALF: usize>(blocks: &mut [[u64; LANES]; BITS], low: u64) {
    for rows in blocks.chunks_exact_mut(2 * HALF) {
        let (first, second) = rows.split_at_mut(HALF);
        for (first, second) in first.iter_mut().zip(second) {
            for (first, second) in first.iter_mut().zip(second) {
                let exchanged = (*first >> HALF ^ *second) & low;
                *first ^= exchanged << HALF;
                *second ^= exchanged;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposition() {
        let mut blocks = [[0u64; LANES]; BITS];
        let bit = |lane: usize, r: usize, c: usize| (r * 31 + c * 17 + r * c + lane * 3) % 5 < 2;
        for (r, row) in blocks.iter_mut().enumerate() {
            for (lane, word) in row.iter_mut().enumerate() {
                *word = (0..64).map(|c| u64::from(bit(lane, r, c)) << c).sum();
            }
        }
        transpose(&mut blocks);
        for (c, row) in blocks.iter().enumerate() {
            for (lane, word) in row.iter().enumerate() {
                assert!((0..64).all(|r| (word >> r & 1 == 1) == bit(lane, r, c)));
            }
        }
    }

    #[test]
    fn words_of_all_copies() {
        let bit = |plane: usize, copy: usize| (plane * 13 + copy * 7 + plane * copy) % 11 < 4;
        for (width, planes) in [(1, 1), (3, 64), (8, 5), (17, 65), (9, 128)] {
            let word = |plane: usize, at: usize| -> u64 {
                let bits = (0..64).map(|c| u64::from(bit(plane, at * 64 + c)) << c);
                bits.sum()
            };
            let rows: Vec<u64> = (0..planes * width)
                .map(|at| word(at / width, at % width))
                .collect();
            let copies = copy_words(width, &rows);
            assert_eq!(copies.len(), width * 64);
            for (copy, words) in copies.iter().enumerate() {
                let has = |plane: usize| plane < planes && bit(plane, copy);
                let found = |plane: usize| words[plane / 64] >> (plane % 64) & 1 == 1;
                assert!((0..PLANES).all(|plane| found(plane) == has(plane)));
            }
        }
    }
}
