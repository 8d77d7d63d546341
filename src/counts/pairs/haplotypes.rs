//! [`HaplotypePairs`]: for every pair of copies the rows at which both are called, and those of them at which they differ.

use std::collections::BTreeMap;

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Lanes, Level};

use super::matrix::{PairMatrix, Shape, Words, add_all, more_rows, save_optional, zeros};
use super::products::{PairCounts, Panel, UnitStrip, for_each_pair};
use super::site_rows::RowsPart;
use super::transposed::Transposed;
use super::triangle::{pairs_of, row_base};

/// Rows that are added at a time.
const ROWS: usize = 1 << 14;

/// Counts over pairs of copies.
#[derive(Clone, Debug)]
pub(crate) struct HaplotypePairs {
    copies: usize,
    /// Rows.
    rows: u64,
    /// Rows at which every copy is called.
    complete: u64,
    /// For each pair, rows that are not complete at which both are called; empty if there are no such rows.
    joint: Vec<u32>,
    /// For each pair, rows at which both are called with different codes.
    differences: Vec<u32>,
}

/// Rows with `planes` planes of codes, every copy called.
#[derive(Clone, Copy)]
struct Complete {
    planes: usize,
}

impl PairCounts<1> for Complete {
    #[inline(always)]
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; 1],
    ) {
        let differ = differ(lanes, first, second, self.planes);
        sums[0] = lanes.add(sums[0], lanes.counters(differ));
    }
}

/// Rows with one plane of codes, every copy called.
#[derive(Clone, Copy)]
struct CompleteBiallelic;

impl PairCounts<1> for CompleteBiallelic {
    #[inline(always)]
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; 1],
    ) {
        let differ = lanes.xor(first.plane(lanes, 0), second.plane(lanes, 0));
        sums[0] = lanes.add(sums[0], lanes.counters(differ));
    }
}

/// Rows with `planes` planes of codes and then one of called copies.
#[derive(Clone, Copy)]
struct Incomplete {
    planes: usize,
}

impl PairCounts<2> for Incomplete {
    #[inline(always)]
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; 2],
    ) {
        let joint = lanes.and(
            first.plane(lanes, self.planes),
            second.plane(lanes, self.planes),
        );
        let differ = lanes.and(differ(lanes, first, second, self.planes), joint);
        sums[0] = lanes.add(sums[0], lanes.counters(joint));
        sums[1] = lanes.add(sums[1], lanes.counters(differ));
    }
}

/// Where the codes of two units differ in any plane.
#[inline(always)]
fn differ<L: Lanes>(
    lanes: L,
    first: &UnitStrip<'_>,
    second: &UnitStrip<'_>,
    planes: usize,
) -> L::Strip {
    let mut differ = lanes.zero();
    for plane in 0..planes {
        let these = lanes.xor(first.plane(lanes, plane), second.plane(lanes, plane));
        differ = lanes.or(differ, these);
    }
    differ
}

impl HaplotypePairs {
    /// Rows at which both copies are called and those of them at which they differ, i < j.
    pub(crate) fn pair(&self, i: usize, j: usize) -> (u64, u64) {
        let at = row_base(self.copies, i).wrapping_add(j);
        let count = |of: &[u32]| of.get(at).copied().map_or(0, u64::from);
        (self.complete + count(&self.joint), count(&self.differences))
    }

    fn add(
        &mut self,
        rows: &[PlanesRow<'_>],
        complete: bool,
        planes: usize,
        level: Level,
    ) -> Result<(), CountError> {
        let copies = self.copies;
        let all = planes + usize::from(!complete);
        let bits = Transposed::try_new(rows, copies, planes, !complete)?;
        let mut panel = Panel::try_new(copies, all, rows.len())?;
        for copy in 0..copies {
            for plane in 0..all {
                panel.set(copy, plane, bits.of(plane, copy).iter().copied());
            }
        }
        drop(bits);
        let differences = &mut self.differences;
        let mut count = |i: usize, j: usize, [differ]: [u64; 1]| {
            // Fits: there are fewer than 2^32 rows.
            differences[row_base(copies, i).wrapping_add(j)] += differ as u32;
        };
        if complete {
            match planes {
                1 => for_each_pair::<1, 8, _, _>(&panel, CompleteBiallelic, level, count),
                _ => for_each_pair::<1, 2, _, _>(&panel, Complete { planes }, level, count),
            }
            return Ok(());
        }
        if self.joint.is_empty() {
            self.joint = zeros(pairs_of(copies), copies)?;
        }
        let joint = &mut self.joint;
        let sink = |i: usize, j: usize, [both, differ]: [u64; 2]| {
            joint[row_base(copies, i).wrapping_add(j)] += both as u32;
            count(i, j, [differ]);
        };
        for_each_pair::<2, 2, _, _>(&panel, Incomplete { planes }, level, sink);
        Ok(())
    }
}

impl PairMatrix for HaplotypePairs {
    const KIND: u32 = 1;
    type Options = ();

    fn try_new(shape: Shape, (): ()) -> Result<Self, CountError> {
        let copies = shape.copies();
        Ok(Self {
            copies,
            rows: 0,
            complete: 0,
            joint: vec![],
            differences: zeros(pairs_of(copies), copies)?,
        })
    }

    fn fold(&mut self, rows: RowsPart<'_>, level: Level) -> Result<(), CountError> {
        self.rows = more_rows(self.rows, rows.len() as u64)?;
        // By whether they are complete and by the number of their planes of codes.
        let mut classes: BTreeMap<(bool, usize), Vec<PlanesRow<'_>>> = BTreeMap::new();
        for row in rows.iter(self.copies) {
            let complete = row.is_complete();
            self.complete += u64::from(complete);
            let planes = row.codes().count();
            if planes == 0 && complete {
                continue;
            }
            let class = classes.entry((complete, planes)).or_default();
            class.push(row);
            if class.len() == ROWS {
                let full = std::mem::take(class);
                self.add(&full, complete, planes, level)?;
            }
        }
        for ((complete, planes), rows) in classes {
            if !rows.is_empty() {
                self.add(&rows, complete, planes, level)?;
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: &Self) -> Result<(), CountError> {
        self.rows = more_rows(self.rows, other.rows)?;
        self.complete += other.complete;
        add_all(&mut self.joint, &other.joint);
        add_all(&mut self.differences, &other.differences);
        Ok(())
    }

    fn save(&self, out: &mut Vec<u64>) {
        out.extend([self.rows, self.complete]);
        save_optional(&self.joint, out);
        save_optional(&self.differences, out);
    }

    fn load(shape: Shape, (): (), words: &mut Words<'_>) -> Option<Self> {
        let copies = shape.copies();
        let pairs = pairs_of(copies);
        let (rows, complete) = (words.next()?, words.next()?);
        let (joint, differences) = (words.optional(pairs)?, words.optional(pairs)?);
        (differences.len() == pairs).then_some(Self {
            copies,
            rows,
            complete,
            joint,
            differences,
        })
    }

    fn heap_bytes(&self) -> usize {
        (self.joint.capacity() + self.differences.capacity()) * size_of::<u32>()
    }

    fn bytes_of(shape: Shape, (): ()) -> usize {
        pairs_of(shape.copies()).saturating_mul(size_of::<u32>())
    }
}
