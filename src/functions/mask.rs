//! Accessibility masks: which bases of each contig are accessible, from a BED file (`bed`) or from the rows of a table.
//!
//! A mask is built once, while planning, and then shared by `is_accessible`, `accessible_bases` and `genome_windows`.
//! BED is 0-based and half-open; a mask's intervals are 1-based and inclusive, like positions. Invariants: the intervals of
//! a contig ascend, none is empty, and at least one inaccessible base separates two of them.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};

use crate::error::{Result, VczError};

/// Limit on the intervals of a mask (8 GiB while they are collected), for compressed files that expand to very many.
const MAX_INTERVALS: usize = 1 << 29;

/// Accessible intervals per contig, merged, with prefix sums.
#[derive(Debug, PartialEq, Eq)]
pub struct Mask {
    name: String,
    names: Vec<String>,
    index: HashMap<String, usize>,
    contigs: Vec<Intervals>,
}

/// The intervals of one contig.
#[derive(Debug, Default, PartialEq, Eq)]
struct Intervals {
    /// First base of each interval, 1-based.
    starts: Vec<i64>,
    /// Last base of each interval, 1-based, inclusive.
    stops: Vec<i64>,
    /// Accessible bases before each interval.
    before: Vec<i64>,
}

impl Mask {
    /// Builds a mask from rows of (contig, start, end), 0-based and half-open like BED, in any order.
    ///
    /// # Errors
    /// [`VczError::Line`], with the row's number counted from 1, for a row that ends before it starts or starts below 0.
    pub fn from_rows<S: AsRef<str>>(
        name: &str,
        rows: impl IntoIterator<Item = (S, i64, i64)>,
    ) -> Result<Self> {
        let mut builder = MaskBuilder::new(name);
        for (number, (contig, start, end)) in (1..).zip(rows) {
            builder.push(contig.as_ref(), start, end, number)?;
        }
        Ok(builder.finish())
    }

    /// The name the mask was built with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of the contigs with at least one row, in order of appearance.
    pub fn contigs(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The intervals of each contig, 0-based and half-open like the rows that a mask is built from.
    pub fn rows(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = (i64, i64)> + '_)> {
        let intervals = self.contigs.iter().map(|contig| {
            let starts = contig.starts.iter().map(|start| start - 1);
            starts.zip(contig.stops.iter().copied())
        });
        self.contigs().zip(intervals)
    }

    /// Whether base `position` (1-based) of `contig` is accessible; false on contigs that the mask does not name.
    pub fn contains(&self, contig: &str, position: i64) -> bool {
        self.contig(contig).contains(position)
    }

    /// Accessible bases in the 1-based inclusive interval `start..=stop`; 0 where `stop < start` and on contigs that the mask
    /// does not name.
    pub fn accessible_bases(&self, contig: &str, start: i64, stop: i64) -> i64 {
        self.contig(contig).bases(start, stop)
    }

    /// The intervals of one contig, for many look-ups; empty where the mask does not name the contig.
    pub fn contig(&self, contig: &str) -> ContigMask<'_> {
        let intervals = self.index.get(contig).and_then(|&at| self.contigs.get(at));
        ContigMask { intervals, at: 0 }
    }

    /// Checks that the mask names at least one of a store's contigs. A mask or a store without contigs passes.
    ///
    /// # Errors
    /// [`VczError::Invalid`], naming some contigs of both.
    pub fn check_shares<S: AsRef<str>>(&self, contigs: &[S]) -> Result<()> {
        if self.names.is_empty()
            || contigs.is_empty()
            || contigs
                .iter()
                .any(|name| self.index.contains_key(name.as_ref()))
        {
            return Ok(());
        }
        Err(VczError::Invalid(format!(
            "mask '{}' shares no contig name with the store: the mask has {}, the store has {}; \
             rename the contigs of one of them",
            self.name,
            sample(self.contigs(), self.names.len()),
            sample(contigs.iter().map(AsRef::as_ref), contigs.len())
        )))
    }

    /// Checks a contig `name` that a query gives as a constant: it must be in the mask or among `contigs`, those of the query's stores.
    /// With an empty mask every name passes.
    ///
    /// # Errors
    /// [`VczError::Invalid`], naming some contigs of the mask.
    pub fn check_knows(&self, name: &str, contigs: &[String]) -> Result<()> {
        let known = self.names.is_empty() || self.index.contains_key(name);
        if known || contigs.iter().any(|contig| contig == name) {
            return Ok(());
        }
        Err(VczError::Invalid(format!(
            "mask '{}' has no contig '{name}'; it has {}",
            self.name,
            sample(self.contigs(), self.names.len())
        )))
    }

    /// Checks a contig `name` that a row has: the mask may lack it, but not have it in another spelling (`1` and `chr1`), since the row
    /// would then have no accessible base without any sign of why.
    ///
    /// # Errors
    /// [`VczError::Invalid`], naming the mask's contig.
    pub fn check_spelling(&self, name: &str) -> Result<()> {
        if self.index.contains_key(name) {
            return Ok(());
        }
        // Looked up, not compared with every contig: there may be very many of both.
        let number = match name.get(..3) {
            Some(start) if start.eq_ignore_ascii_case("chr") => name.get(3..).unwrap_or_default(),
            _ => name,
        };
        let mut others = ["", "chr", "Chr", "CHR"]
            .into_iter()
            .map(|start| format!("{start}{number}"));
        match others.find(|other| self.index.contains_key(other)) {
            Some(near) => Err(VczError::Invalid(format!(
                "mask '{}' has no contig '{name}'; did you mean '{near}'? Rename the contigs of one of them, as in replace(contig, 'chr', '')",
                self.name
            ))),
            None => Ok(()),
        }
    }
}

/// The first few names, for a message.
fn sample<'a>(names: impl Iterator<Item = &'a str>, total: usize) -> String {
    const SHOWN: usize = 5;
    let mut text = String::new();
    for (i, name) in names.take(SHOWN).enumerate() {
        let separator = if i == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}'{name}'");
    }
    if total > SHOWN {
        let _ = write!(text, ", … ({total} in all)");
    }
    text
}

/// Collects the rows of a [`Mask`], for sources that read batch by batch.
#[derive(Debug)]
pub struct MaskBuilder {
    mask: Mask,
    /// Index of the last row's contig: consecutive rows usually have the same contig.
    last: usize,
    total: usize,
}

impl MaskBuilder {
    /// An empty mask; errors refer to it as `name`.
    pub fn new(name: &str) -> Self {
        let mask = Mask {
            name: name.to_string(),
            names: Vec::new(),
            index: HashMap::new(),
            contigs: Vec::new(),
        };
        Self {
            mask,
            last: 0,
            total: 0,
        }
    }

    /// Adds a row: 0-based, half-open. `number` counts rows or lines from 1, for errors.
    ///
    /// # Errors
    /// [`VczError::Line`] where `start` is below 0, `end` is below `start`, or the contig has no name.
    pub fn push(&mut self, contig: &str, start: i64, end: i64, number: u64) -> Result<()> {
        let fail = |reason: &dyn Display| {
            Err(VczError::Line {
                file: self.mask.name.clone(),
                line: number,
                reason: reason.to_string(),
            })
        };
        if contig.is_empty() {
            return fail(&"the contig has no name");
        }
        if start < 0 {
            return fail(&format_args!(
                "start must not be below 0 (BED is 0-based), found {start}"
            ));
        }
        if end < start {
            return fail(&format_args!(
                "end must not be below start, found start {start} and end {end}"
            ));
        }
        if self
            .mask
            .names
            .get(self.last)
            .is_none_or(|name| name != contig)
        {
            self.last = match self.mask.index.get(contig) {
                Some(&at) => at,
                None => {
                    let at = self.mask.names.len();
                    self.mask.names.push(contig.to_string());
                    self.mask.index.insert(contig.to_string(), at);
                    self.mask.contigs.push(Intervals::default());
                    at
                }
            };
        }
        let Some(intervals) = self.mask.contigs.get_mut(self.last) else {
            return Ok(());
        };
        if end > start && intervals.push(start + 1, end) {
            self.total += 1;
            if self.total > MAX_INTERVALS {
                return Err(VczError::Invalid(format!(
                    "mask '{}' holds more than {MAX_INTERVALS} intervals",
                    self.mask.name
                )));
            }
        }
        Ok(())
    }

    /// Sorts and merges the intervals.
    pub fn finish(mut self) -> Mask {
        self.mask.contigs.iter_mut().for_each(Intervals::finish);
        self.mask
    }
}

impl Intervals {
    /// Adds an interval, merged into the last one if they touch. Returns whether the number of intervals grew.
    fn push(&mut self, start: i64, stop: i64) -> bool {
        if let (Some(&first), Some(last)) = (self.starts.last(), self.stops.last_mut())
            && start >= first
            && start - 1 <= *last
        {
            *last = stop.max(*last);
            return false;
        }
        self.starts.push(start);
        self.stops.push(stop);
        true
    }

    fn finish(&mut self) {
        if !self.starts.is_sorted() {
            let mut rows: Vec<(i64, i64)> = std::mem::take(&mut self.starts)
                .into_iter()
                .zip(std::mem::take(&mut self.stops))
                .collect();
            rows.sort_unstable();
            for (start, stop) in rows {
                self.push(start, stop);
            }
        }
        let mut total = 0;
        self.before.reserve_exact(self.starts.len());
        for (start, stop) in self.starts.iter().zip(&self.stops) {
            self.before.push(total);
            // Disjoint intervals within 1..=i64::MAX: the sum cannot overflow.
            total += stop - start + 1;
        }
        self.starts.shrink_to_fit();
        self.stops.shrink_to_fit();
    }

    /// Accessible bases at or below `position`.
    fn bases_up_to(&self, position: i64) -> i64 {
        let next = self.starts.partition_point(|&start| start <= position);
        let Some(at) = next.checked_sub(1) else {
            return 0;
        };
        match (self.starts.get(at), self.stops.get(at), self.before.get(at)) {
            (Some(&start), Some(&stop), Some(&before)) => before + (position.min(stop) - start + 1),
            _ => 0,
        }
    }
}

/// One contig of a [`Mask`], with a cursor that makes look-ups of ascending positions fast.
#[derive(Clone, Copy, Debug)]
pub struct ContigMask<'a> {
    intervals: Option<&'a Intervals>,
    /// The cursor: number of intervals that start at or before the last position.
    at: usize,
}

impl ContigMask<'_> {
    /// Whether base `position` (1-based) is accessible.
    pub fn contains(&self, position: i64) -> bool {
        let mut cursor = *self;
        cursor.contains_next(position)
    }

    /// [`contains`](Self::contains), fastest where positions ascend.
    #[inline]
    pub fn contains_next(&mut self, position: i64) -> bool {
        let Some(intervals) = self.intervals else {
            return false;
        };
        let starts = intervals.starts.as_slice();
        // Look a few intervals ahead before searching all of them.
        const AHEAD: usize = 8;
        let behind = self
            .at
            .checked_sub(1)
            .and_then(|at| starts.get(at))
            .is_none_or(|&start| start <= position);
        let near = starts
            .get(self.at..(self.at + AHEAD).min(starts.len()))
            .unwrap_or_default();
        match near.iter().position(|&start| start > position) {
            Some(steps) if behind => self.at += steps,
            None if behind && self.at + near.len() == starts.len() => self.at = starts.len(),
            _ => self.at = starts.partition_point(|&start| start <= position),
        }
        self.at
            .checked_sub(1)
            .and_then(|at| intervals.stops.get(at))
            .is_some_and(|&stop| position <= stop)
    }

    /// Accessible bases in the 1-based inclusive interval `start..=stop`; 0 where `stop < start`.
    pub fn bases(&self, start: i64, stop: i64) -> i64 {
        match self.intervals {
            Some(intervals) if start <= stop => {
                let before = start
                    .checked_sub(1)
                    .map_or(0, |before| intervals.bases_up_to(before));
                intervals.bases_up_to(stop) - before
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_agrees_with_search_in_any_order() {
        let rows = (0..1000).map(|i| ("c", i * 10, i * 10 + 1 + i % 9));
        let mask = Mask::from_rows("rows", rows).unwrap();
        let mut cursor = mask.contig("c");
        let ascending = 0..11_000i64;
        let jumping = (0..5000i64).map(|i| i * 7919 % 11_000);
        for position in ascending.chain(jumping) {
            let (i, within) = ((position - 1).div_euclid(10), (position - 1).rem_euclid(10));
            let expected = (0..1000).contains(&i) && within < 1 + i % 9;
            assert_eq!(cursor.contains_next(position), expected, "{position}");
            assert_eq!(mask.contains("c", position), expected, "{position}");
        }
    }

    #[test]
    fn a_mask_must_share_a_contig() {
        let mask = Mask::from_rows("m.bed", [("chr1", 0, 5), ("chr2", 0, 5)]).unwrap();
        mask.check_shares(&["chr2", "chr3"]).unwrap();
        let error = mask
            .check_shares(&["1", "2", "3", "4", "5", "6"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(
                "the mask has 'chr1', 'chr2', the store has '1', '2', '3', '4', '5', … (6 in all)"
            ),
            "{error}"
        );
        mask.check_shares::<&str>(&[]).unwrap();
    }

    #[test]
    fn a_contig_that_is_named_must_be_known() {
        let mask = Mask::from_rows("m.bed", [("chr1", 0, 5), ("chr2", 0, 5)]).unwrap();
        mask.check_knows("chr2", &[]).unwrap();
        mask.check_knows("chrM", &["chrM".to_string()]).unwrap();
        let error = mask.check_knows("1", &["chr3".to_string()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "mask 'm.bed' has no contig '1'; it has 'chr1', 'chr2'"
        );
    }

    #[test]
    fn a_contig_of_a_row_is_not_spelt_otherwise() {
        let mask = Mask::from_rows("m.bed", [("chr1", 0, 5), ("2", 0, 5)]).unwrap();
        for fine in ["chr1", "2", "chr3", "X"] {
            mask.check_spelling(fine).unwrap();
        }
        for (name, near) in [("1", "chr1"), ("chr2", "2"), ("CHR1", "chr1")] {
            let error = mask.check_spelling(name).unwrap_err().to_string();
            assert!(
                error.contains(&format!("no contig '{name}'; did you mean '{near}'?")),
                "{error}"
            );
        }
    }

    #[test]
    fn extreme_coordinates() {
        let mask = Mask::from_rows("m", [("1", 0, i64::MAX), ("1", i64::MAX, i64::MAX)]).unwrap();
        assert!(mask.contains("1", i64::MAX) && !mask.contains("1", 0));
        assert_eq!(mask.accessible_bases("1", i64::MIN, i64::MAX), i64::MAX);
        assert!(
            Mask::from_rows("m", [("1", 3, 2)])
                .unwrap_err()
                .to_string()
                .contains("'m', line 1")
        );
    }
}
