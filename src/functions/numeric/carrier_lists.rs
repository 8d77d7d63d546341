//! [`CarrierLists`]: planes with few bits, as lists of the copies that carry them. Most sites of a sample are rare, so most planes are
//! kept in much less memory than their words take, and used without looking at all copies.

/// Words of a plane that are looked at together.
const CHUNK: usize = 64;
/// Words of a plane for each carrier that its list may have. Longer lists would be refined by as fast as planes of words, not faster.
const WORDS_PER_CARRIER: usize = 4;
/// The bit of an entry that marks the first carrier of a list; the others are the copy.
const FIRST: u32 = 1 << 31;

/// Lists of carriers, one after the other.
#[derive(Clone, Debug, Default)]
pub struct CarrierLists {
    /// For each carrier its copy, with a mark where a list begins.
    entries: Vec<u32>,
}

impl CarrierLists {
    /// Appends the carriers of a plane. False, and nothing is appended, if there are too many of them for a list.
    #[inline]
    pub fn push(&mut self, plane: &[u64]) -> bool {
        if plane.len() > FIRST as usize / 64 {
            return false;
        }
        let before = self.entries.len();
        let most = before + plane.len().div_ceil(WORDS_PER_CARRIER);
        let mut mark = FIRST;
        for (words, base) in plane.chunks(CHUNK).zip((0u32..).step_by(CHUNK * 64)) {
            // Places of words with bits. Which words have bits cannot be predicted, so there is no branch on it.
            let mut places = [0u8; CHUNK];
            let mut found = 0;
            for (at, word) in (0u8..).zip(words) {
                if let Some(place) = places.get_mut(found) {
                    *place = at;
                }
                found += usize::from(*word != 0);
            }
            if self.entries.len() + found > most {
                self.entries.truncate(before);
                return false;
            }
            for place in places.iter().take(found) {
                let mut word = words.get(usize::from(*place)).copied().unwrap_or(0);
                let base = base + u32::from(*place) * 64;
                while word != 0 {
                    self.entries.push((base + word.trailing_zeros()) | mark);
                    mark = 0;
                    word &= word - 1;
                }
                if self.entries.len() > most {
                    self.entries.truncate(before);
                    return false;
                }
            }
        }
        true
    }

    /// Every carrier with the number of its list, from 1 on.
    #[inline]
    pub fn carriers(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let mut list = 0u32;
        self.entries.iter().map(move |entry| {
            list = list.wrapping_add(u32::from(entry & FIRST != 0));
            (list, (entry & !FIRST) as usize)
        })
    }

    /// Carriers of all lists together.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no carrier.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Leaves no list, and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Bytes on the heap.
    pub fn heap_size(&self) -> usize {
        self.entries.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_with_few_bits_become_lists() {
        let mut lists = CarrierLists::default();
        let mut plane = vec![0u64; 70];
        assert!(lists.push(&plane) && lists.is_empty());
        (plane[0], plane[63], plane[64]) = (1 << 63, 1, 6);
        assert!(lists.push(&plane));
        // Too many bits in one word, in the first words, and in the last ones.
        for words in [3..4, 0..20, 50..70] {
            let mut many = vec![0u64; 70];
            let bits = if words.len() == 1 { u64::MAX } else { 1 };
            many.get_mut(words).unwrap().fill(bits);
            assert!(!lists.push(&many));
        }
        assert!(lists.push(&[8]) && !lists.push(&[3]));
        let found: Vec<_> = lists.carriers().collect();
        let first = [63, 63 * 64, 64 * 64 + 1, 64 * 64 + 2].map(|copy| (1, copy));
        assert_eq!(found, [&first[..], &[(2, 3)]].concat());
        assert!(lists.len() == 5 && lists.heap_size() >= 5 * 4);
        lists.clear();
        assert!(lists.is_empty());
    }
}
