//! `jackknife(num, den, m)`: the standard error of a ratio of sums, from one row for each block of the genome.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, PrimitiveArray, StructArray,
};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Fields, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::Documentation;

use super::histogram::{Histogram, Key};
use super::numbers::NumbersDefinition;
use super::saved_cells::{self, SavedCells, Saver};
use super::statistic::{SiteInput, Statistic, column};
use crate::functions::documentation::document;
use crate::functions::numeric::jackknife::{Blocks, Jackknife, jackknife};

/// `jackknife`.
#[derive(Debug)]
pub(crate) struct JackknifeAggregate;

/// The statistic behind `jackknife`: the number of blocks with each (num, den, m).
#[derive(Debug, Default)]
pub(crate) struct BlockJackknife {
    /// Scratch space that is kept between evaluations.
    sorted: Vec<(BlockKey, i64)>,
}

/// num, den and m of a block, as words that sort in the order of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockKey([u64; 3]);

const SIGN: u64 = 1 << 63;

/// Bits that sort in the order of the numbers; 0 and −0 give the same bits.
fn ordered(number: f64) -> u64 {
    let bits = (number + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The inverse of [`ordered`].
fn number(ordered: u64) -> f64 {
    f64::from_bits(if ordered & SIGN == 0 {
        !ordered
    } else {
        ordered & !SIGN
    })
}

impl BlockKey {
    /// The key of a block; `None` for a block without sites, which is ignored.
    fn try_new(num: f64, den: f64, m: i64) -> Result<Option<Self>> {
        match u64::try_from(m) {
            Err(_) => exec_err!("jackknife: m, the number of sites of a block, is {m}"),
            Ok(0) => Ok(None),
            Ok(_) if !num.is_finite() || !den.is_finite() => exec_err!(
                "jackknife: num and den of a block must be finite numbers, found {num} and {den}"
            ),
            Ok(m) => Ok(Some(Self([ordered(num), ordered(den), m]))),
        }
    }

    /// `times` blocks with this key.
    fn blocks(self, times: i64) -> Blocks {
        let [num, den, m] = self.0;
        Blocks {
            num: number(num),
            den: number(den),
            m: m as i64, // It was made from an i64.
            times,
        }
    }
}

impl Key for BlockKey {
    const WORDS: usize = 3;

    fn word(self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or_default()
    }

    fn push(self, word: u64) -> Self {
        let [_, first, second] = self.0;
        Self([first, second, word])
    }

    // The number of possible keys is not known, so the histogram is always sparse.
    fn index(self) -> usize {
        usize::MAX
    }

    fn at(_index: usize) -> Self {
        Self::default()
    }
}

/// A batch of blocks.
pub(crate) struct BlockRows<'a> {
    num: &'a Float64Array,
    den: &'a Float64Array,
    m: &'a Int64Array,
}

impl BlockRows<'_> {
    fn key(&self, row: usize) -> Result<Option<BlockKey>> {
        BlockKey::try_new(self.num.value(row), self.den.value(row), self.m.value(row))
    }
}

impl SiteInput for BlockRows<'_> {
    fn len(&self) -> usize {
        self.num.len()
    }

    fn is_null(&self, row: usize) -> bool {
        self.num.is_null(row) || self.den.is_null(row) || self.m.is_null(row)
    }

    fn has_nulls(&self) -> bool {
        self.num.null_count() + self.den.null_count() + self.m.null_count() > 0
    }
}

/// Argument `at`, which planning has cast to this type.
fn argument<T: ArrowPrimitiveType>(values: &[ArrayRef], at: usize) -> Result<&PrimitiveArray<T>> {
    match column(values, at)?.as_primitive_opt::<T>() {
        Some(values) => Ok(values),
        None => internal_err!("jackknife: argument {at} must be {}", T::DATA_TYPE),
    }
}

fn fields() -> Fields {
    let number = |name| Field::new(name, DataType::Float64, true);
    vec![
        number("estimate"),
        number("jackknife_estimate"),
        number("se"),
        number("z"),
        Field::new("blocks", DataType::Int64, true),
    ]
    .into()
}

fn structs(rows: &[Jackknife]) -> Result<ArrayRef> {
    let numbers = |part: fn(&Jackknife) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(part).collect::<Float64Array>())
    };
    let columns = vec![
        numbers(|row| row.estimate),
        numbers(|row| row.jackknife_estimate),
        numbers(|row| row.se),
        numbers(|row| row.z),
        Arc::new(
            rows.iter()
                .map(|row| Some(row.blocks))
                .collect::<Int64Array>(),
        ),
    ];
    Ok(Arc::new(StructArray::try_new(fields(), columns, None)?))
}

impl BlockJackknife {
    fn count(
        state: &mut Histogram<BlockKey>,
        input: &BlockRows<'_>,
        mut rows: impl Iterator<Item = usize>,
        times: i64,
    ) -> Result<()> {
        rows.try_for_each(|row| match input.key(row)? {
            Some(block) => state.add(block, times, 0),
            None => Ok(()),
        })
    }
}

impl Statistic for BlockJackknife {
    type State = Histogram<BlockKey>;
    type Input<'a> = BlockRows<'a>;
    type Saved<'a> = SavedCells<'a>;

    fn state_columns() -> Vec<(String, DataType)> {
        saved_cells::state_columns::<BlockKey>()
    }

    fn input(values: &[ArrayRef]) -> Result<BlockRows<'_>> {
        Ok(BlockRows {
            num: argument::<Float64Type>(values, 0)?,
            den: argument::<Float64Type>(values, 1)?,
            m: argument::<Int64Type>(values, 2)?,
        })
    }

    fn add(
        &self,
        state: &mut Self::State,
        input: &BlockRows<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        Self::count(state, input, rows, 1)
    }

    fn remove(
        &self,
        state: &mut Self::State,
        input: &BlockRows<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        Self::count(state, input, rows, -1)
    }

    fn saved(states: &[ArrayRef]) -> Result<SavedCells<'_>> {
        SavedCells::try_new::<BlockKey>(states)
    }

    fn merge(&self, state: &mut Self::State, saved: &SavedCells<'_>, row: usize) -> Result<()> {
        let is_valid = |BlockKey([num, den, m])| {
            number(num).is_finite()
                && number(den).is_finite()
                && i64::try_from(m).is_ok_and(|m| m > 0)
        };
        saved.merge_into(state, row, 0, is_valid)
    }

    fn save(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        let mut saver = Saver::new(states.len(), states.len());
        for state in states {
            state.for_each(|block, times| saver.push(block, times));
            saver.end_row()?;
        }
        Ok(saver.finish())
    }

    fn save_rows(
        &self,
        input: &BlockRows<'_>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let mut saver = Saver::new(input.len(), input.len());
        for row in 0..input.len() {
            if kept(row)
                && !input.is_null(row)
                && let Some(block) = input.key(row)?
            {
                saver.push(block, 1);
            }
            saver.end_row()?;
        }
        Ok(saver.finish())
    }

    fn evaluate(&mut self, states: &[Self::State]) -> Result<ArrayRef> {
        let mut rows = Vec::with_capacity(states.len());
        let mut blocks = Vec::new();
        for state in states {
            state.sorted(&mut self.sorted);
            blocks.clear();
            blocks.extend(self.sorted.iter().map(|&(key, times)| key.blocks(times)));
            rows.push(jackknife(&blocks));
        }
        structs(&rows)
    }

    fn heap_size(&self) -> usize {
        self.sorted.capacity() * size_of::<(BlockKey, i64)>()
    }
}

impl NumbersDefinition for JackknifeAggregate {
    type Statistic = BlockJackknife;
    const NAME: &'static str = "jackknife";
    const ARGUMENTS: &'static [(&'static str, DataType)] = &[
        ("num", DataType::Float64),
        ("den", DataType::Float64),
        ("m", DataType::Int64),
    ];

    fn default_value() -> Result<ScalarValue> {
        ScalarValue::try_from_array(&structs(&[Jackknife::default()])?, 0)
    }

    fn statistic() -> BlockJackknife {
        BlockJackknife::default()
    }

    fn documentation() -> Documentation {
        document(
            "The weighted block jackknife of a ratio of sums (delete-m_j; Busing et al. 1999), as \
             ADMIXTOOLS 2 has it, over rows that are blocks of the genome: a struct of estimate, \
             sum(num) / sum(den); jackknife_estimate; se, the standard error; z, estimate / se; \
             and blocks, their number. Rows with m = 0 or a NULL are left out. estimate is NULL \
             where sum(den) is not positive, the others too where there are fewer than two blocks \
             or one of them has all of sum(den). A mean has den = m = its number of sites.",
            "jackknife(num, den, m)",
            "SELECT jackknife(num, den, m)['z'] FROM (SELECT exact_sum(s['num']) AS num, exact_sum(s['den']) AS den, \
             count(s) AS m FROM (SELECT variant_contig, genome_bin(variant_position, 5000000) AS block, \
             site_patterson_d(a, b, c, d) AS s FROM sites) GROUP BY variant_contig, block)",
        )
        .with_argument("num", "The sum of the numerator over the sites of a block; cast to Float64.")
        .with_argument("den", "The sum of the denominator.")
        .with_argument("m", "The number of sites in the block, a whole number.")
        .with_related_udf("site_patterson_d")
        .with_related_udf("site_f4")
        .with_related_udf("site_fst_hudson")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::aggregate::harness::Call;

    type Rows<'a> = &'a [(Option<f64>, Option<f64>, Option<i64>)];

    fn value(rows: Rows<'_>) -> Result<ScalarValue> {
        let fields = vec![
            Field::new("num", DataType::Float64, true),
            Field::new("den", DataType::Float64, true),
            Field::new("m", DataType::Int64, true),
        ];
        let columns: [ArrayRef; 3] = [
            Arc::new(rows.iter().map(|row| row.0).collect::<Float64Array>()),
            Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
        ];
        Call::on("jackknife", fields, &[])?.value(&columns)
    }

    #[test]
    fn the_order_of_blocks_does_not_show() {
        let all = [
            (Some(0.1), Some(0.7), Some(3)),
            (Some(-0.3), Some(1.1), Some(9)),
            (Some(0.1), Some(0.7), Some(3)),
            (Some(0.0), Some(0.2), Some(1)),
        ];
        let mut other = all;
        other.reverse();
        other[0].0 = Some(-0.0);
        assert_eq!(value(&all).unwrap(), value(&other).unwrap());
        let plain = jackknife(&all.map(|(num, den, m)| Blocks {
            num: num.unwrap(),
            den: den.unwrap(),
            m: m.unwrap(),
            times: 1,
        }));
        let ScalarValue::Struct(found) = value(&all).unwrap() else {
            panic!()
        };
        let se = found.column(2).as_primitive::<Float64Type>().value(0);
        assert!((se - plain.se.unwrap()).abs() < 1e-15);
        assert_eq!(found.column(4).as_primitive::<Int64Type>().value(0), 4);
    }

    #[test]
    fn rows_that_are_no_blocks_are_left_out() {
        let block = (Some(1.0), Some(2.0), Some(3));
        let expected = value(&[block, (Some(2.0), Some(2.0), Some(1))]).unwrap();
        let found = value(&[
            block,
            (None, Some(2.0), Some(3)),
            (Some(7.0), None, Some(3)),
            (Some(7.0), Some(2.0), None),
            (Some(7.0), Some(2.0), Some(0)),
            (Some(f64::NAN), Some(0.0), Some(0)),
            (Some(1.0), Some(f64::INFINITY), Some(0)),
            (Some(2.0), Some(2.0), Some(1)),
        ]);
        assert_eq!(found.unwrap(), expected);
        assert_eq!(
            value(&[]).unwrap(),
            JackknifeAggregate::default_value().unwrap()
        );
    }

    #[test]
    fn what_cannot_be_a_block_is_an_error() {
        for (row, part) in [
            ((Some(f64::NAN), Some(1.0), Some(1)), "found NaN and 1"),
            ((Some(1.0), Some(f64::INFINITY), Some(1)), "found 1 and inf"),
            ((Some(1.0), Some(1.0), Some(-1)), "is -1"),
        ] {
            let error = value(&[row]).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn keys_have_the_order_of_numbers() {
        let numbers = [f64::MIN, -2.5, -1e-300, 0.0, 1e-300, 7.0, f64::MAX];
        assert!(numbers.map(ordered).is_sorted());
        assert_eq!(numbers.map(|x| number(ordered(x))), numbers);
        assert_eq!(ordered(-0.0), ordered(0.0));
        let key = BlockKey([1, 2, 3]);
        let words = (0..BlockKey::WORDS).map(|at| key.word(at));
        assert_eq!(words.fold(BlockKey::default(), Key::push), key);
    }
}
