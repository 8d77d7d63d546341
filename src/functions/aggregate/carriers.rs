//! The copies that carry the alleles of one row, from which singletons and private sites of individuals are found.

/// The copies of alleles other than the reference, in one row.
#[derive(Clone, Copy, Default)]
pub(super) struct Carriers {
    /// Their number.
    pub(super) copies: u32,
    /// The first of them.
    pub(super) first: usize,
    /// The last of them.
    pub(super) last: usize,
}

impl Carriers {
    /// Adds the copies of word `at`.
    #[inline(always)]
    pub(super) fn add(&mut self, at: usize, bits: u64) {
        if self.copies == 0 {
            self.first = at * 64 + bits.trailing_zeros() as usize;
        }
        self.last = at * 64 + 63 - bits.leading_zeros() as usize;
        self.copies += bits.count_ones();
    }
}

/// How often an allele occurs in a row.
pub(super) struct Tally {
    /// The allele.
    pub(super) code: i64,
    /// Its copies.
    pub(super) copies: i32,
    /// The last copy of it.
    pub(super) copy: usize,
    /// Copies in complete diploids.
    pub(super) in_diploids: i32,
}

/// The tally of allele `code`, added if it does not exist.
pub(super) fn tally(tallies: &mut Vec<Tally>, code: i64) -> &mut Tally {
    let at = match tallies.iter().position(|known| known.code == code) {
        Some(at) => at,
        None => {
            tallies.push(Tally {
                code,
                copies: 0,
                copy: 0,
                in_diploids: 0,
            });
            tallies.len() - 1
        }
    };
    &mut tallies[at]
}
