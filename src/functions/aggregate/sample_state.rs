//! The state of `sample_counts`: for every individual of a population the number of calls of each class, as integers, and the sum of
//! the expected heterozygosities H_e of its complete diploid calls, in fixed point.
//!
//! A row of reference calls changes only the number of rows. For diploids the classes of a row are words with a bit for each
//! individual, counted in [`BitCounters`]. H_e of a row is added once for the whole population, and subtracted for individuals that
//! are not complete diploids there.

use super::carriers::{Carriers, Tally, tally};
use super::sample_feed::CountedOnDevice;
use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED};
use crate::counts::reference::{diploid_alleles, genotype_class};
use crate::counts::{HAPLOID, HET, HOM_ALT, MISSING};
use crate::functions::numeric::FixedSum;
use crate::functions::numeric::bit_counters::{BLOCK, BitCounters, for_each_bit};
use crate::functions::numeric::site::site_diversity;

/// The number of counts of an individual: four classes, since the homozygous reference is the rest of the rows; heterozygous
/// complete diploids, if calls have more than two copies; singletons; private sites.
pub(crate) const FIELDS: usize = 7;
const CLASSES: [usize; 4] = [HET, HOM_ALT, HAPLOID, MISSING];
const DIPLOID_HET: usize = 4;
const SINGLETONS: usize = 5;
const PRIVATE: usize = 6;

/// The first bit of each pair: the first copies of diploid calls.
const FIRSTS: u64 = 0x5555_5555_5555_5555;

/// The individuals of a population.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Individuals {
    /// Number of individuals.
    pub(crate) samples: usize,
    /// Copies of a call.
    pub(crate) ploidy: usize,
}

/// The state of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampleState {
    /// Rows added.
    pub(crate) rows: i64,
    /// [`FIELDS`] counts of each individual; empty before there are any.
    pub(crate) counts: Vec<i64>,
    /// Σ H_e over rows, for every individual.
    pub(crate) expected: FixedSum,
    /// What is added to `expected` for each individual; empty before the first correction.
    pub(crate) corrections: Vec<i128>,
    /// Heterozygous calls, and calls homozygous for an ALT allele, counted in the bits of a call's two copies.
    called: BitCounters,
    /// Haploid and missing calls, likewise; if all calls are haploid, only the missing ones.
    lacking: BitCounters,
}

/// One individual's counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleRow {
    /// hom_ref, het, hom_alt, haploid, missing, singletons, private_sites.
    pub(crate) counts: [i64; 7],
    /// Σ H_e over its complete diploid calls.
    pub(crate) expected: f64,
    /// 1 − its heterozygous complete diploid calls / expected; `None` where that is 0.
    pub(crate) inbreeding: Option<f64>,
}

impl Individuals {
    /// Copies of the population.
    pub(crate) fn copies(self) -> usize {
        self.samples.saturating_mul(self.ploidy)
    }

    /// Adds a row, or removes it: `sign` is 1 or −1.
    #[inline(always)]
    pub(crate) fn add(self, state: &mut SampleState, row: PlanesRow<'_>, sign: i64) {
        state.rows += sign;
        if row.is_all_reference() {
            return;
        }
        if state.counts.is_empty() {
            state.counts = vec![0; self.samples * FIELDS];
        }
        match (self.ploidy, row.only_low()) {
            (2, Some(plane)) if row.is_complete() => self.add_biallelic(state, plane, sign),
            (1 | 2, _) => self.add_words(state, row, sign),
            _ => self.add_calls(state, row, sign),
        }
        if sign > 0 && state.called.end_row() {
            self.flush(state);
        }
    }

    /// Adds rows that a device has counted: all calls are of diploids and complete, with codes 0 and 1, and one copy or more has 1.
    pub(crate) fn add_counted(self, state: &mut SampleState, counted: &CountedOnDevice) {
        state.rows += counted.rows as i64; // fits in 32 bits, as the counts do
        if counted.rows == 0 {
            return;
        }
        if state.counts.is_empty() {
            state.counts = vec![0; self.samples * FIELDS];
        }
        let fields = [field_of(HET), field_of(HOM_ALT), SINGLETONS, PRIVATE];
        let counts = counted.counts.chunks_exact(self.samples.max(1));
        for (field, counts) in fields.into_iter().zip(counts) {
            let of_samples = state.counts.iter_mut().skip(field).step_by(FIELDS);
            for (sum, count) in of_samples.zip(counts) {
                *sum += i64::from(*count);
            }
        }
        for (ones, rows) in counted.by_copies.iter().enumerate() {
            // Both fit, as a scan's counts do.
            let (copies, ones) = (self.copies() as i32, ones as i32);
            if *rows > 0
                && let Some(expected) = site_diversity(&[copies - ones, ones])
            {
                state.expected.add_times(expected, *rows as i64);
            }
        }
    }

    /// Diploid calls, all of them called, with codes 0 and 1.
    #[inline(always)]
    fn add_biallelic(self, state: &mut SampleState, plane: &[u64], sign: i64) {
        state.called.reserve(plane.len());
        let mut ones = 0;
        for (at, words) in plane.chunks(BLOCK).enumerate() {
            let mut block = [0; BLOCK];
            block[..words.len()].copy_from_slice(words);
            for bits in &mut block {
                ones += bits.count_ones();
                let second = *bits >> 1;
                *bits = (*bits ^ second) & FIRSTS | (*bits & second & FIRSTS) << 1;
            }
            if sign > 0 {
                state.called.add_block(at, block);
                continue;
            }
            for (word, &classes) in block.iter().enumerate() {
                let word = at * BLOCK + word;
                self.uncount(&mut state.counts, word, classes, [HET, HOM_ALT]);
            }
        }
        // With more than two ALT copies there is more than one carrier.
        if ones <= 2 {
            let mut carriers = Carriers::default();
            let set = plane.iter().enumerate().filter(|(_, bits)| **bits != 0);
            set.for_each(|(at, &bits)| carriers.add(at, bits));
            self.carried(state, carriers, ones == 1, sign);
        }
        let copies = self.copies() as i32; // fits, as a scan's counts do
        let ones = ones as i32;
        if let Some(expected) = site_diversity(&[copies - ones, ones]) {
            state.expected.add_times(expected, sign);
        }
    }

    /// Removes classes, which are the bits of pairs.
    fn uncount(self, counts: &mut [i64], at: usize, classes: u64, fields: [usize; 2]) {
        for_each_bit(classes, |bit| {
            let (sample, field) = self.place(at * 64 + bit, fields);
            if let Some(count) = counts.get_mut(sample * FIELDS + field) {
                *count -= 1;
            }
        });
    }

    /// The individual and the field of a bit of [`BitCounters`].
    #[inline(always)]
    fn place(self, bit: usize, fields: [usize; 2]) -> (usize, usize) {
        match self.ploidy {
            1 => (bit, field_of(MISSING)),
            _ => (bit / 2, field_of(fields[bit % 2])),
        }
    }

    /// Counts a singleton for the individual that carries the row's only copy of an allele, and a private site for the only carrier of ALT
    /// alleles.
    #[inline(always)]
    fn carried(self, state: &mut SampleState, carriers: Carriers, singleton: bool, sign: i64) {
        let Carriers {
            copies,
            first,
            last,
        } = carriers;
        let sample = first / self.ploidy;
        if singleton && let Some(count) = state.counts.get_mut(sample * FIELDS + SINGLETONS) {
            *count += sign;
        }
        if copies > 0
            && sample == last / self.ploidy
            && let Some(count) = state.counts.get_mut(sample * FIELDS + PRIVATE)
        {
            *count += sign;
        }
    }

    /// Haploid or diploid calls with any codes.
    fn add_words(self, state: &mut SampleState, row: PlanesRow<'_>, sign: i64) {
        let width = row.width();
        state.called.reserve(width);
        state.lacking.reserve(width);
        let codes: Vec<&[u64]> = row.codes().map(|(_, plane)| plane).collect();
        let (uncalled, absent) = (row.plane(UNCALLED), row.plane(ABSENT));
        let word = |plane: Option<&[u64]>, at: usize| plane.map_or(0, |plane| plane[at]);
        // One bit for each individual that is not a complete diploid.
        let lacks = |at: usize| {
            let none = word(uncalled, at) | word(absent, at);
            (none | none >> 1) & FIRSTS
        };
        let only_low = row.only_low();
        let mut carriers = Carriers::default();
        let (mut incomplete, mut low_in_diploids) = (0, 0);
        for at in 0..width {
            let (mut alt, mut differ) = (0, 0);
            for plane in &codes {
                let bits = plane[at];
                alt |= bits;
                differ |= bits ^ bits >> 1;
            }
            let (unknown, missing_copy) = (word(uncalled, at), word(absent, at));
            let none = unknown | missing_copy;
            if alt | none == 0 {
                continue;
            }
            if alt != 0 {
                carriers.add(at, alt);
            }
            if self.ploidy == 1 {
                self.count_lacking(state, at, none, sign);
                continue;
            }
            let lacking = (none | none >> 1) & FIRSTS;
            incomplete += lacking.count_ones() as usize;
            if let Some(low) = only_low {
                let complete = !(lacking | lacking << 1);
                low_in_diploids += (low[at] & complete).count_ones() as i32;
            }
            let het = differ & FIRSTS & !lacking;
            let hom_alt = (alt | alt >> 1) & FIRSTS & !differ & !lacking;
            let classes = het | hom_alt << 1;
            if sign > 0 {
                state.called.add(at, classes);
            } else {
                self.uncount(&mut state.counts, at, classes, [HET, HOM_ALT]);
            }
            // One copy does not exist, the other is called.
            let one_copy = (missing_copy & !(none >> 1) | missing_copy >> 1 & !none) & FIRSTS;
            let classes = one_copy | (lacking & !one_copy) << 1;
            self.count_lacking(state, at, classes, sign);
        }
        let mut tallies = vec![];
        if only_low.is_some() {
            self.carried(state, carriers, carriers.copies == 1, sign);
        } else {
            self.carried(state, carriers, false, sign);
            for at in 0..width {
                let alt = codes.iter().fold(0, |alt, plane| alt | plane[at]);
                let lacking = lacks(at);
                let incomplete = lacking | lacking << 1;
                for_each_bit(alt, |bit| {
                    let tally = tally(&mut tallies, row.code(at * 64 + bit));
                    tally.copies += 1;
                    tally.copy = at * 64 + bit;
                    tally.in_diploids += i32::from(incomplete >> bit & 1 == 0);
                });
            }
            self.singletons(state, &tallies, sign);
        }
        if self.ploidy == 1 {
            return;
        }
        let diploids = self.samples.saturating_sub(incomplete);
        let mut alleles: Vec<i32> = tallies.iter().map(|tally| tally.in_diploids).collect();
        if only_low.is_some() {
            alleles.push(low_in_diploids);
        }
        let reference = 2 * diploids as i32 - alleles.iter().sum::<i32>();
        alleles.push(reference);
        let Some(expected) = site_diversity(&alleles).filter(|expected| *expected > 0.0) else {
            return;
        };
        if incomplete == 0 {
            state.expected.add_times(expected, sign);
            return;
        }
        let few = incomplete <= diploids;
        if few {
            state.expected.add_times(expected, sign);
        }
        let sign = if few { -sign } else { sign };
        for at in 0..width {
            let lacking = lacks(at);
            let corrected = if few { lacking } else { !lacking & FIRSTS };
            for_each_bit(corrected, |bit| {
                self.correct(state, (at * 64 + bit) / 2, expected, sign);
            });
        }
    }

    fn count_lacking(self, state: &mut SampleState, at: usize, classes: u64, sign: i64) {
        if sign > 0 {
            state.lacking.add(at, classes);
        } else {
            self.uncount(&mut state.counts, at, classes, [HAPLOID, MISSING]);
        }
    }

    fn singletons(self, state: &mut SampleState, tallies: &[Tally], sign: i64) {
        for tally in tallies.iter().filter(|tally| tally.copies == 1) {
            let sample = tally.copy / self.ploidy;
            if let Some(count) = state.counts.get_mut(sample * FIELDS + SINGLETONS) {
                *count += sign;
            }
        }
    }

    fn correct(self, state: &mut SampleState, sample: usize, expected: f64, sign: i64) {
        if state.corrections.is_empty() {
            state.corrections = vec![0; self.samples];
        }
        if let Some(correction) = state.corrections.get_mut(sample) {
            let mut sum = FixedSum(*correction);
            sum.add_times(expected, sign);
            *correction = sum.0;
        }
    }

    /// Calls of any number of copies, one by one.
    fn add_calls(self, state: &mut SampleState, row: PlanesRow<'_>, sign: i64) {
        let mut carriers = Carriers::default();
        let mut tallies: Vec<Tally> = vec![];
        let mut complete = vec![];
        let mut call = Vec::with_capacity(self.ploidy);
        for sample in 0..self.samples {
            let copies = sample * self.ploidy..(sample + 1) * self.ploidy;
            call.clear();
            call.extend(copies.clone().map(|copy| row.code(copy)));
            let diploid = diploid_alleles(call.iter().copied());
            let fields = state.counts.get_mut(sample * FIELDS..(sample + 1) * FIELDS);
            if let Some(fields) = fields {
                let class = genotype_class(&call);
                if CLASSES.contains(&class) {
                    fields[field_of(class)] += sign;
                }
                if diploid.is_some_and(|[first, second]| first != second) {
                    fields[DIPLOID_HET] += sign;
                }
            }
            if diploid.is_some() {
                complete.push(sample);
            }
            for (copy, code) in copies.zip(&call) {
                if *code < 0 {
                    continue;
                }
                let tally = tally(&mut tallies, *code);
                tally.copies += 1;
                tally.copy = copy;
                tally.in_diploids += i32::from(diploid.is_some());
                if *code > 0 {
                    carriers.add(copy / 64, 1 << (copy % 64));
                }
            }
        }
        self.carried(state, carriers, false, sign);
        let alleles: Vec<i32> = tallies.iter().map(|tally| tally.in_diploids).collect();
        tallies.retain(|tally| tally.code > 0);
        self.singletons(state, &tallies, sign);
        if let Some(expected) = site_diversity(&alleles) {
            for sample in complete {
                self.correct(state, sample, expected, sign);
            }
        }
    }

    /// Moves what the counters hold into the counts.
    fn flush(self, state: &mut SampleState) {
        let SampleState {
            counts,
            called,
            lacking,
            ..
        } = state;
        for (counters, fields) in [(called, [HET, HOM_ALT]), (lacking, [HAPLOID, MISSING])] {
            counters.take(|bit, times| {
                let (sample, field) = self.place(bit, fields);
                if let Some(count) = counts.get_mut(sample * FIELDS + field) {
                    *count = count.wrapping_add(times);
                }
            });
        }
    }

    /// [`FIELDS`] counts of each individual; empty where there are none.
    pub(crate) fn counts(self, state: &SampleState) -> Vec<i64> {
        let mut counts = state.counts.clone();
        for (counters, fields) in [
            (&state.called, [HET, HOM_ALT]),
            (&state.lacking, [HAPLOID, MISSING]),
        ] {
            counters.for_each(|bit, times| {
                let (sample, field) = self.place(bit, fields);
                if let Some(count) = counts.get_mut(sample * FIELDS + field) {
                    *count = count.wrapping_add(times);
                }
            });
        }
        counts
    }

    /// The counts of every individual, in store order.
    pub(crate) fn rows(self, state: &SampleState) -> Vec<SampleRow> {
        let counts = self.counts(state);
        let none = [0; FIELDS];
        let rows = (0..self.samples).map(|sample| {
            let fields = counts.get(sample * FIELDS..(sample + 1) * FIELDS);
            let &[
                het,
                hom_alt,
                haploid,
                missing,
                diploid_het,
                singletons,
                private,
            ] = fields
                .and_then(|fields| fields.first_chunk())
                .unwrap_or(&none);
            // States of other processes may have any numbers.
            let others = state.rows.wrapping_sub(het).wrapping_sub(hom_alt);
            let others = others.wrapping_sub(missing);
            let (hom_ref, haploid) = match self.ploidy {
                1 => (0, others),
                _ => (others.wrapping_sub(haploid), haploid),
            };
            let correction = state.corrections.get(sample).copied().unwrap_or(0);
            let mut expected = state.expected;
            expected.merge(FixedSum(correction));
            let expected = expected.to_f64();
            let heterozygous = if self.ploidy == 2 { het } else { diploid_het };
            SampleRow {
                counts: [hom_ref, het, hom_alt, haploid, missing, singletons, private],
                expected,
                inbreeding: (expected > 0.0).then(|| 1.0 - heterozygous as f64 / expected),
            }
        });
        rows.collect()
    }
}

/// The field of a class.
#[inline(always)]
fn field_of(class: usize) -> usize {
    match class {
        HET => 0,
        HOM_ALT => 1,
        HAPLOID => 2,
        _ => 3,
    }
}

impl SampleState {
    /// Merges another state from its saved columns, which have as many counts and corrections as this one, or none.
    pub(crate) fn merge(
        &mut self,
        rows: i64,
        expected: FixedSum,
        counts: &[i64],
        corrections: &[i128],
    ) {
        self.rows = self.rows.wrapping_add(rows);
        self.expected.merge(expected);
        if self.counts.is_empty() {
            self.counts = counts.to_vec();
        } else {
            for (sum, count) in self.counts.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(*count);
            }
        }
        if self.corrections.is_empty() {
            self.corrections = corrections.to_vec();
        } else {
            for (sum, correction) in self.corrections.iter_mut().zip(corrections) {
                *sum = sum.wrapping_add(*correction);
            }
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
            + self.corrections.capacity() * size_of::<i128>()
            + self.called.heap_size()
            + self.lacking.heap_size()
    }
}
