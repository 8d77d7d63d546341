//! [`SiteRecords`]: sites that are kept, one after the other, each with its position and the planes that have anything to say.

use std::collections::VecDeque;

use arrow::buffer::ScalarBuffer;

use crate::counts::gathered::plane_words;

use super::bits::{SiteBits, ones};

/// The copies of one population, or of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copies {
    /// Those of the first population.
    pub(crate) first: usize,
    /// Those of the second.
    pub(crate) second: Option<usize>,
}

impl Copies {
    /// Those of each population.
    pub(crate) fn each(self) -> impl Iterator<Item = usize> {
        std::iter::once(self.first).chain(self.second)
    }

    /// Those of population `at`; 0 if there is no such population.
    pub(crate) fn of(self, at: usize) -> usize {
        self.each().nth(at).unwrap_or(0)
    }
}

/// Words before the planes of a record: the position, and which planes there are.
const HEADER: usize = 2;
/// Bits of the second word of a record for the planes of a population.
const PLANES: usize = 2;

/// A record, viewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiteRecord<'a> {
    /// The position.
    pub(crate) position: f64,
    /// For each population, the copies with another allele than the reference; `None` where there are none, or the site does not vary
    /// in all populations together.
    pub(crate) alternate: [Option<&'a [u64]>; 2],
    /// For each population, the called copies; `None` where all are.
    pub(crate) called: [Option<&'a [u64]>; 2],
    /// The whole record.
    pub(crate) words: &'a [u64],
}

impl SiteRecord<'_> {
    /// Called copies of population `at`, which has `copies`.
    pub(crate) fn n(&self, at: usize, copies: usize) -> usize {
        self.called[at].map_or(copies, ones)
    }

    /// Whether the site varies, in all populations together.
    pub(crate) fn varies(&self) -> bool {
        self.alternate.iter().any(Option::is_some)
    }
}

/// The bits of the planes of a record, in their order.
fn planes_of(head: u64) -> impl Iterator<Item = usize> {
    (0..2 * PLANES).filter(move |bit| head >> bit & 1 == 1)
}

/// Words of a record with this second word; `None` if there is no such record.
fn len_of(head: u64, copies: Copies) -> Option<usize> {
    let populations = copies.each().count();
    if head >> (populations * PLANES) != 0 {
        return None;
    }
    planes_of(head).try_fold(HEADER, |sum, bit| {
        sum.checked_add(plane_words(copies.of(bit / PLANES)))
    })
}

/// Appends a record.
fn push(out: &mut Vec<u64>, position: f64, bits: &[SiteBits]) {
    let (n, d) = bits
        .iter()
        .fold((0, 0), |(n, d), bits| (n + bits.n, d + bits.d));
    let varies = 0 < d && d < n;
    out.push(position.to_bits());
    let head_at = out.len();
    out.push(0);
    let mut head = 0;
    for (at, bits) in bits.iter().enumerate() {
        if varies && bits.d > 0 {
            head |= 1 << (at * PLANES);
            out.extend_from_slice(&bits.alternate);
        }
        if !bits.called.is_empty() {
            head |= 2 << (at * PLANES);
            out.extend_from_slice(&bits.called);
        }
    }
    if let Some(word) = out.get_mut(head_at) {
        *word = head;
    }
}

/// The first of some records, and the words after it.
fn first(words: &[u64], copies: Copies) -> Option<(SiteRecord<'_>, &[u64])> {
    let (&[position, head], _) = words.split_first_chunk::<HEADER>()?;
    let (record, others) = words.split_at_checked(len_of(head, copies)?)?;
    let mut planes = record.get(HEADER..)?;
    let (mut alternate, mut called) = ([None; 2], [None; 2]);
    for bit in planes_of(head) {
        let at = bit / PLANES;
        let (plane, rest) = planes.split_at_checked(plane_words(copies.of(at)))?;
        planes = rest;
        match bit % PLANES {
            0 => alternate[at] = Some(plane),
            _ => called[at] = Some(plane),
        }
    }
    let view = SiteRecord {
        position: f64::from_bits(position),
        alternate,
        called,
        words: record,
    };
    Some((view, others))
}

/// The records of some words.
pub(crate) fn records(words: &[u64], copies: Copies) -> impl Iterator<Item = SiteRecord<'_>> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let (record, others) = first(rest, copies)?;
        rest = others;
        Some(record)
    })
}

/// Records of so many words are not copied when they are merged.
const SHARED_WORDS: usize = 1 << 16;
/// Words of records after which others begin that can be shared.
const PART_WORDS: usize = 1 << 19;

/// Sites that are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteRecords {
    /// Parts of whole records, which others may hold, too.
    shared: VecDeque<ScalarBuffer<u64>>,
    /// Further records.
    words: Vec<u64>,
    /// Words of records that were removed from the first part, or from `words` if there is none.
    removed: usize,
    rows: usize,
}

impl SiteRecords {
    /// Adds a site: its bits in each population.
    pub(crate) fn push(&mut self, position: f64, bits: &[SiteBits]) {
        push(&mut self.words, position, bits);
        self.rows += 1;
        if self.words.len() >= PART_WORDS {
            // Sites that come in such numbers will fill another part, too.
            let next = Vec::with_capacity(PART_WORDS + PART_WORDS / 8);
            let part = std::mem::replace(&mut self.words, next);
            self.shared.push_back(part.into());
        }
    }

    /// Adds the records of `words`, one of the [`parts`](Self::parts) of others; `false` if they are not of these copies.
    pub(crate) fn extend(&mut self, words: ScalarBuffer<u64>, copies: Copies) -> bool {
        let (mut rest, mut rows) = (words.as_ref(), 0);
        let (mut begin, mut parts) = (0, vec![]);
        while !rest.is_empty() {
            let end = words.len() - rest.len();
            if end - begin >= PART_WORDS {
                parts.push(words.slice(begin, end - begin));
                begin = end;
            }
            match first(rest, copies) {
                Some((_, others)) => rest = others,
                None => return false,
            }
            rows += 1;
        }
        parts.push(words.slice(begin, words.len() - begin));
        // A part of a much larger buffer would keep all of it.
        let is_most = size_of_val(words.as_ref()) >= words.inner().capacity() / 2;
        match is_most && words.len() >= SHARED_WORDS && self.removed == 0 {
            true => self.shared.extend(parts),
            false => self.words.extend_from_slice(&words),
        }
        self.rows += rows;
        true
    }

    /// Removes the first site; `false` if it is another one. Not after sites were merged, which have no order.
    pub(crate) fn remove_first(&mut self, position: f64, bits: &[SiteBits]) -> bool {
        let mut wanted = vec![];
        push(&mut wanted, position, bits);
        let part = self.shared.front().map_or(&self.words[..], |part| part);
        let (length, rest) = (part.len(), part.get(self.removed..));
        if self.rows == 0 || !rest.is_some_and(|rest| rest.starts_with(&wanted)) {
            return false;
        }
        self.rows -= 1;
        self.removed += wanted.len();
        if self.shared.is_empty() && self.removed > length / 2 {
            self.words.drain(..self.removed);
            self.removed = 0;
        } else if self.removed == length {
            self.shared.pop_front();
            self.removed = 0;
        }
        true
    }

    /// Number of sites.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The words of all records, in parts of whole records: those that are shared, and the others.
    pub(crate) fn parts(&self) -> (impl Iterator<Item = ScalarBuffer<u64>>, &[u64]) {
        let removed = |at: usize| if at == 0 { self.removed } else { 0 };
        let shared = self.shared.iter().enumerate().map(move |(at, part)| {
            let removed = removed(at).min(part.len());
            part.slice(removed, part.len() - removed)
        });
        let removed = removed(self.shared.len());
        (shared, self.words.get(removed..).unwrap_or_default())
    }

    /// The records, see [`whole_parts`](Self::whole_parts).
    #[cfg(test)]
    pub(crate) fn iter(&self, copies: Copies) -> impl Iterator<Item = SiteRecord<'_>> {
        let parts = self.whole_parts().into_iter();
        parts.flat_map(move |part| records(part, copies))
    }

    /// The words of all records, in parts of whole records. Parts are sorted by the position of their first record.
    pub(crate) fn whole_parts(&self) -> Vec<&[u64]> {
        let mut parts: Vec<&[u64]> = self.shared.iter().map(|part| part.as_ref()).collect();
        parts.push(&self.words);
        if let Some(first) = parts.first_mut() {
            *first = first.get(self.removed..).unwrap_or_default();
        }
        let position = |part: &&[u64]| part.first().map_or(0.0, |bits| f64::from_bits(*bits));
        parts.sort_by(|one, other| position(one).total_cmp(&position(other)));
        parts
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let shared = self.shared.iter().map(|words| words.len());
        let words = shared.fold(self.words.capacity(), usize::saturating_add);
        words * size_of::<u64>() + self.shared.capacity() * size_of::<ScalarBuffer<u64>>()
    }
}
