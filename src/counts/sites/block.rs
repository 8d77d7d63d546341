//! [`Block`]: up to 64 sites of a population as planes of strips, in groups of eight sites so that a kernel reads memory in its order.

use crate::counts::lanes::{STRIP, STRIP_COPIES};

use super::bits::{all_ones, ones, swapped};

/// Sites of a block.
pub(crate) const BLOCK: usize = 64;
/// Sites of a group.
pub(super) const GROUP: usize = 8;

/// 512 bits.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Strip(pub(super) [u8; STRIP]);

impl Strip {
    /// No bit set.
    pub(super) const ZERO: Self = Self([0; STRIP]);

    /// Sets word `at`.
    #[inline(always)]
    pub(super) fn set(&mut self, at: usize, word: u64) {
        if let Some(bytes) = self.0.as_chunks_mut::<8>().0.get_mut(at) {
            *bytes = word.to_le_bytes();
        }
    }
}

/// The bits of the sites of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plane {
    /// Strips of a site.
    strips: usize,
    /// For each group its strips, each of them for eight sites.
    bits: Vec<[Strip; GROUP]>,
}

impl Plane {
    fn clear(&mut self, copies: usize) {
        self.strips = copies.div_ceil(STRIP_COPIES);
        self.bits.clear();
        self.bits
            .resize(self.strips * BLOCK / GROUP, [Strip::ZERO; GROUP]);
    }

    /// Strips of a site.
    pub(super) fn strips(&self) -> usize {
        self.strips
    }

    /// Strips `strips` of a group.
    #[inline(always)]
    pub(super) fn group(&self, group: usize, strips: std::ops::Range<usize>) -> &[[Strip; GROUP]] {
        let from = group * self.strips;
        self.bits
            .get(from + strips.start..from + strips.end)
            .unwrap_or_default()
    }

    fn set(&mut self, row: usize, words: impl Iterator<Item = u64>) {
        let from = row / GROUP * self.strips;
        let Some(group) = self.bits.get_mut(from..from + self.strips) else {
            return;
        };
        for (at, word) in words.enumerate() {
            if let Some(strip) = group.get_mut(at / 8) {
                strip[row % GROUP].set(at % 8, word);
            }
        }
    }
}

/// Up to 64 sites.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    copies: usize,
    rows: usize,
    complete: bool,
    /// Copies with another allele than the reference.
    pub(crate) alternate: Plane,
    /// Called copies; empty where every copy of every site is called, before [`fill_called`](Self::fill_called).
    pub(crate) called: Plane,
    /// `alternate` with the two copies of each individual exchanged; only after [`add_genotypes`](Self::add_genotypes).
    pub(crate) swapped: Plane,
    /// Both copies of individuals without the reference; only after [`add_genotypes`](Self::add_genotypes).
    pub(crate) homozygous: Plane,
    /// Called copies of each site; 0 past the last site.
    pub(crate) n: [u32; BLOCK],
    /// Copies of each site with another allele than the reference.
    pub(crate) d: [u32; BLOCK],
    /// Individuals of each site with two of these copies; only after [`add_genotypes`](Self::add_genotypes).
    pub(crate) homozygotes: [u32; BLOCK],
}

impl Block {
    /// A block of sites of `copies` copies, without a site.
    pub(crate) fn new(copies: usize) -> Self {
        Self {
            copies,
            rows: 0,
            complete: true,
            alternate: Plane::default(),
            called: Plane::default(),
            swapped: Plane::default(),
            homozygous: Plane::default(),
            n: [0; BLOCK],
            d: [0; BLOCK],
            homozygotes: [0; BLOCK],
        }
    }

    /// Copies of a site.
    pub(crate) fn copies(&self) -> usize {
        self.copies
    }

    /// Whether every copy of every site is called.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Bytes of a block of sites of so many copies, with all planes; saturating.
    pub(crate) fn bytes_of(copies: usize) -> usize {
        let strips = copies.div_ceil(STRIP_COPIES);
        size_of::<Self>().saturating_add(strips.saturating_mul(4 * BLOCK * size_of::<Strip>()))
    }

    /// Replaces the sites by these, the first 64 of them: the copies with another allele than the reference, `None` if there are none,
    /// and the called ones, `None` if all are.
    pub(crate) fn load<'a>(
        &mut self,
        sites: impl Iterator<Item = (Option<&'a [u64]>, Option<&'a [u64]>)> + Clone,
    ) {
        let sites = sites.take(BLOCK);
        self.rows = 0;
        (self.n, self.d) = ([0; BLOCK], [0; BLOCK]);
        self.alternate.clear(self.copies);
        self.called = Plane::default();
        self.complete = sites.clone().all(|(_, called)| called.is_none());
        if !self.complete {
            self.called.clear(self.copies);
        }
        let everyone = match self.complete {
            true => vec![],
            false => all_ones(self.copies),
        };
        for (row, (alternate, called)) in sites.enumerate() {
            let alternate = alternate.unwrap_or_default();
            self.alternate.set(row, alternate.iter().copied());
            if !self.complete {
                let called = called.unwrap_or(&everyone);
                self.called.set(row, called.iter().copied());
            }
            // There are fewer than 2³² copies: samples are numbered by 32 bits, and arrays of more are refused.
            self.n[row] = called.map_or(self.copies, ones) as u32;
            self.d[row] = ones(alternate) as u32;
            self.rows += 1;
        }
    }

    /// Makes the plane of called copies, if every copy is called.
    pub(crate) fn fill_called(&mut self) {
        if self.called.strips == 0 && self.copies > 0 {
            self.called.clear(self.copies);
            let everyone = all_ones(self.copies);
            for row in 0..self.rows {
                self.called.set(row, everyone.iter().copied());
            }
        }
    }

    /// Makes the planes of genotypes: copies 2i and 2i + 1 are those of an individual.
    pub(crate) fn add_genotypes(&mut self) {
        self.swapped.clear(self.copies);
        self.homozygous.clear(self.copies);
        let words = |group: &[Strip; GROUP], at: usize| {
            let bytes = group[at].0;
            let mut words = [0u64; 8];
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            words
        };
        self.homozygotes = [0; BLOCK];
        for row in 0..self.rows {
            let group = row / GROUP * self.alternate.strips;
            for strip in group..group + self.alternate.strips {
                let alternate = words(&self.alternate.bits[strip], row % GROUP);
                for (at, word) in alternate.into_iter().enumerate() {
                    let other = swapped(word);
                    self.swapped.bits[strip][row % GROUP].set(at, other);
                    self.homozygous.bits[strip][row % GROUP].set(at, word & other);
                    self.homozygotes[row] += (word & other).count_ones() / 2;
                }
            }
        }
    }
}
