//! The statistic behind the aggregates over pairs of sites: a group's sites are kept as bit-planes, and all pairs are compared when the group is
//! evaluated.
//!
//! States are saved as words: a header with the layout's version and the contig, then the sites (`saved_sites`). Merging joins them. The sites are
//! put in order before they are compared, and sums over pairs are exact, so the order of rows does not show.

use std::fmt::Debug;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err, internal_err};

use super::planes_rows::{Lists, PlanesRows, planes_row};
use super::saved_sites::{SavedSites, Saver, state_columns};
use super::statistic::{GroupState, SiteInput, Statistic};
use crate::counts::pairs::{Shape, Words};
use crate::counts::sites::{Copies, SiteBits, SiteRecords};
use crate::counts::{Level, Workers};
use crate::functions::interrupt;
use crate::scan::is_planes_type;

/// The version of saved states.
const VERSION: u64 = 2;
/// Words of the header before the contig: version, copies of both populations, bytes of the contig.
const HEADER: usize = 4;

/// Which sites are kept, and what of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    /// All sites, by copy.
    All,
    /// Sites that vary, by copy.
    Segregating,
    /// All sites, of complete diploids alone.
    Diploids(Shape),
    /// Sites that vary among complete diploids, and these diploids alone.
    SegregatingDiploids(Shape),
}

/// What a function computes from the sites of each group.
pub(crate) trait SitePairValue: Debug + Send + Sync + 'static {
    /// The function's SQL name.
    const NAME: &'static str;
    /// Whether devices compute it.
    const IS_ON_DEVICE: bool = false;

    /// Which sites are kept.
    fn kept(&self) -> Kept;

    /// Returns an error if a group has too many sites.
    fn check_sites(&self, _sites: usize) -> Result<()> {
        Ok(())
    }

    /// The values of groups, one row each.
    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = &'a SiteRecords>,
        copies: Copies,
        level: Level,
    ) -> Result<ArrayRef>
    where
        Self: Sized;

    /// Bytes of the value of one group.
    fn size(&self) -> usize {
        0
    }
}

/// The state of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct SitePairState {
    sites: SiteRecords,
    contig: Option<Box<str>>,
}

impl GroupState for SitePairState {
    fn heap_size(&self) -> usize {
        self.sites.heap_bytes() + self.contig.as_ref().map_or(0, |contig| contig.len())
    }
}

/// The statistic of a population or two.
#[derive(Debug)]
pub(crate) struct SitePairsOf<V> {
    copies: Copies,
    value: V,
    level: Level,
}

/// A batch of arguments: the bit-planes of one population or two, and then, for statistics by distance, positions and contigs. The
/// bounds of bins, which are constant, are not read.
pub(crate) struct SitePairInput<'a> {
    planes: PlanesRows<'a>,
    second: Option<PlanesRows<'a>>,
    positions: Option<&'a Float64Array>,
    contigs: Option<StringViewArray>,
}

impl SiteInput for SitePairInput<'_> {
    fn len(&self) -> usize {
        self.planes.len()
    }

    fn is_null(&self, row: usize) -> bool {
        self.planes.is_null(row)
            || self.second.as_ref().is_some_and(|of| of.is_null(row))
            || self.positions.is_some_and(|of| of.is_null(row))
    }

    fn has_nulls(&self) -> bool {
        self.planes.has_nulls()
            || self.second.as_ref().is_some_and(SiteInput::has_nulls)
            || self.positions.is_some_and(|of| of.null_count() > 0)
    }
}

impl<V: SitePairValue> SitePairsOf<V> {
    /// For populations of these copies.
    pub(crate) fn new(copies: Copies, value: V) -> Self {
        let copies = match value.kept() {
            Kept::Diploids(shape) | Kept::SegregatingDiploids(shape) => Copies {
                first: shape.samples.saturating_mul(2),
                second: None,
            },
            _ => copies,
        };
        Self {
            copies,
            value,
            level: Level::detect(),
        }
    }

    /// Reads the bits of a row into `bits`, one for each population; the position, or `None` for a site that is not kept.
    fn site(
        &self,
        input: &SitePairInput<'_>,
        row: usize,
        bits: &mut [SiteBits],
    ) -> Result<Option<f64>> {
        let name = V::NAME;
        let planes = [Some(&input.planes), input.second.as_ref()];
        for ((planes, copies), bits) in planes
            .iter()
            .flatten()
            .zip(self.copies.each())
            .zip(bits.iter_mut())
        {
            match self.value.kept() {
                Kept::Diploids(shape) | Kept::SegregatingDiploids(shape) => {
                    let row = planes_row(name, planes.row(row), shape.copies())?;
                    bits.of_diploids(row, shape);
                }
                _ => bits.of_copies(planes_row(name, planes.row(row), copies)?, copies),
            }
        }
        let only_segregating = matches!(
            self.value.kept(),
            Kept::Segregating | Kept::SegregatingDiploids(_)
        );
        if only_segregating && !bits.iter().any(SiteBits::is_segregating) {
            return Ok(None);
        }
        let Some(positions) = input.positions else {
            return Ok(Some(0.0));
        };
        let position = positions.value(row);
        if position.is_nan() {
            return exec_err!(
                "{name}: a position is not a number (NaN); leave such rows out, as in WHERE NOT isnan(position)"
            );
        }
        Ok(Some(position))
    }

    fn buffers(&self) -> Vec<SiteBits> {
        self.copies.each().map(|_| SiteBits::default()).collect()
    }

    fn check_contig(&self, state: &mut SitePairState, contig: &str) -> Result<()> {
        match &state.contig {
            Some(known) if **known == *contig => Ok(()),
            Some(known) => exec_err!(
                "{}: a group has variants of the contigs '{known}' and '{contig}', between which there is no distance: add GROUP BY \
                 variant_contig, or PARTITION BY variant_contig in OVER",
                V::NAME
            ),
            None => {
                state.contig = Some(contig.into());
                Ok(())
            }
        }
    }

    fn save_state(&self, state: &SitePairState, saver: &mut Saver) {
        saver.push(&self.header(state.contig.as_deref()), &state.sites);
    }

    /// The header: of a state without contig, the length of its name is 0.
    fn header(&self, contig: Option<&str>) -> Vec<u64> {
        let text = contig.unwrap_or_default().as_bytes();
        let second = self.copies.second.map_or(u64::MAX, |copies| copies as u64);
        let mut words = vec![VERSION, self.copies.first as u64, second, text.len() as u64];
        words.extend(text.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word.iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(word)
        }));
        words
    }

    /// Adds a saved state; `None` if it is none of this statistic's.
    fn load(
        &self,
        saved: &SavedSites<'_>,
        row: usize,
        state: &mut SitePairState,
    ) -> Option<Result<()>> {
        let all = saved.words(row);
        if all.is_empty() {
            return Some(Ok(()));
        }
        let alone = Workers::new(1, &|| false);
        let mut words = Words::new(&all, &alone);
        let header = words.take(HEADER)?;
        let length = usize::try_from(*header.last()?).ok()?;
        let text = words.take(length.div_ceil(8))?;
        let bytes: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).collect();
        let contig = std::str::from_utf8(bytes.get(..length)?).ok()?;
        let expected = self.header(Some(contig));
        if expected.get(..HEADER) != Some(header) {
            return None;
        }
        if !contig.is_empty()
            && let Err(error) = self.check_contig(state, contig)
        {
            return Some(Err(error));
        }
        let records = all.slice(all.len() - words.rest().len(), words.rest().len());
        for part in saved.parts(row).chain([Some(records)]) {
            if !state.sites.extend(part?, self.copies) {
                return None;
            }
        }
        Some(Ok(()))
    }
}

impl<V: SitePairValue> Statistic for SitePairsOf<V> {
    type State = SitePairState;
    type Input<'a> = SitePairInput<'a>;
    type Saved<'a> = SavedSites<'a>;
    const COMPARES_PAIRS: bool = true;
    const COMPARES_SITES: bool = V::IS_ON_DEVICE;

    fn state_columns() -> Vec<(String, DataType)> {
        state_columns()
    }

    fn input(values: &[ArrayRef]) -> Result<SitePairInput<'_>> {
        let mut input = SitePairInput {
            planes: Lists::try_new(values, 0)?,
            second: None,
            positions: None,
            contigs: None,
        };
        for (at, column) in values.iter().enumerate().skip(1) {
            let data_type = column.data_type();
            if is_planes_type(data_type) {
                input.second = Some(Lists::try_new(values, at)?);
            } else if *data_type == DataType::Float64 {
                input.positions = column.as_primitive_opt::<Float64Type>();
            } else if !data_type.is_nested() {
                let names = cast(column, &DataType::Utf8View)?;
                input.contigs = names.as_string_view_opt().cloned();
            }
        }
        Ok(input)
    }

    fn add(
        &self,
        state: &mut SitePairState,
        input: &SitePairInput<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let mut bits = self.buffers();
        for row in rows {
            if let Some(contigs) = &input.contigs {
                self.check_contig(state, contigs.value(row))?;
            }
            if let Some(position) = self.site(input, row, &mut bits)? {
                state.sites.push(position, &bits);
            }
        }
        self.value.check_sites(state.sites.len())
    }

    fn remove(
        &self,
        state: &mut SitePairState,
        input: &SitePairInput<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let mut bits = self.buffers();
        for row in rows {
            // Rows leave a frame in the order in which they were added.
            if let Some(position) = self.site(input, row, &mut bits)?
                && !state.sites.remove_first(position, &bits)
            {
                return internal_err!("{}: a row leaves its frame out of order", V::NAME);
            }
        }
        if state.sites.len() == 0 {
            state.contig = None;
        }
        Ok(())
    }

    fn saved(states: &[ArrayRef]) -> Result<SavedSites<'_>> {
        SavedSites::try_new(states)
    }

    fn merge(&self, state: &mut SitePairState, saved: &SavedSites<'_>, row: usize) -> Result<()> {
        match self.load(saved, row, state) {
            Some(loaded) => loaded?,
            None => {
                return internal_err!(
                    "{}: a saved state is not of {:?}, or of another version",
                    V::NAME,
                    self.copies
                );
            }
        }
        self.value.check_sites(state.sites.len())
    }

    fn save(&self, states: &[SitePairState]) -> Result<Vec<ArrayRef>> {
        let mut saver = Saver::new(states.len());
        for state in states {
            self.save_state(state, &mut saver);
        }
        saver.finish()
    }

    fn save_rows(
        &self,
        input: &SitePairInput<'_>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let mut saver = Saver::new(input.len());
        for row in 0..input.len() {
            let mut state = SitePairState::default();
            if !kept(row) || input.is_null(row) {
                saver.push_empty();
                continue;
            }
            self.add(&mut state, input, std::iter::once(row))?;
            self.save_state(&state, &mut saver);
        }
        saver.finish()
    }

    fn evaluate(&mut self, states: &[SitePairState]) -> Result<ArrayRef> {
        let pairs = |state: &SitePairState| state.sites.len().saturating_pow(2);
        let pairs = states.iter().map(pairs).fold(0, usize::saturating_add);
        let groups = states.iter().map(|state| &state.sites);
        interrupt::long(pairs, || self.value.column(groups, self.copies, self.level))
    }

    fn value_size(&self) -> usize {
        self.value.size()
    }
}
