//! [`BitCounters`]: how often each bit of a row of words was set, counted for all bits of a word at a time.

/// Levels of a counter: it counts to 2⁸ − 1.
const LEVELS: usize = 8;
/// Rows that fit the levels.
const ROWS: u32 = (1 << LEVELS) - 1;

/// A counter for each bit of some words. Level `k` of a word has bit `k` of the counters of its 64 bits, so that adding a word is a
/// carry through as many levels as it goes, and words without a set bit cost nothing.
#[derive(Clone, Debug, Default)]
pub struct BitCounters {
    words: Vec<[u64; LEVELS]>,
    rows: u32,
}

impl BitCounters {
    /// Makes room for `words` words.
    pub fn reserve(&mut self, words: usize) {
        if self.words.len() < words {
            self.words.resize(words, [0; LEVELS]);
        }
    }

    /// Counts the set bits of word `at`, for which there is room. Each word is added at most once a row.
    #[inline(always)]
    pub fn add(&mut self, at: usize, bits: u64) {
        let Some(levels) = self.words.get_mut(at) else {
            return;
        };
        let mut carry = bits;
        for level in levels {
            if carry == 0 {
                return;
            }
            (*level, carry) = (*level ^ carry, *level & carry);
        }
    }

    /// Ends a row. Whether the counters are full: then [`take`](Self::take) them before the next row.
    #[inline(always)]
    pub fn end_row(&mut self) -> bool {
        self.rows += 1;
        self.rows >= ROWS
    }

    /// Calls `count(bit, times)`, for a bit with its number of times in parts.
    pub fn for_each(&self, mut count: impl FnMut(usize, i64)) {
        for (at, levels) in self.words.iter().enumerate() {
            for (level, &bits) in levels.iter().enumerate() {
                for_each_bit(bits, |bit| count(at * 64 + bit, 1 << level));
            }
        }
    }

    /// As [`for_each`](Self::for_each), and sets all counters to zero.
    pub fn take(&mut self, count: impl FnMut(usize, i64)) {
        self.for_each(count);
        self.words.fill([0; LEVELS]);
        self.rows = 0;
    }

    /// Bytes on the heap.
    pub fn heap_size(&self) -> usize {
        self.words.capacity() * size_of::<[u64; LEVELS]>()
    }
}

/// Calls `f` with the index of each set bit.
#[inline(always)]
pub fn for_each_bit(mut bits: u64, mut f: impl FnMut(usize)) {
    while bits != 0 {
        f(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_counted() {
        let mut counters = BitCounters::default();
        counters.reserve(2);
        let mut totals = vec![0; 128];
        let mut expected = vec![0; 128];
        let mut noise = 1u64;
        for row in 0..1000u64 {
            for word in 0..2 {
                noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(row);
                let bits = noise | 1;
                counters.add(word, bits);
                for_each_bit(bits, |bit| expected[word * 64 + bit] += 1);
            }
            if counters.end_row() {
                counters.take(|bit, times| totals[bit] += times);
            }
        }
        counters.for_each(|bit, times| totals[bit] += times);
        assert_eq!(totals, expected);
        // A word that there is no room for.
        counters.add(2, 1);
        assert_eq!(totals[0], 1000);
    }
}
