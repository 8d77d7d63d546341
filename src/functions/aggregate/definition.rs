//! The definition of an aggregate over counts, from which [`CountsAggregate`](super::udaf::CountsAggregate) makes a DataFusion function.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{Documentation, DocumentationBuilder};

use super::statistic::Statistic as SiteStatistic;
use crate::functions::counts_arg::{COPIES_BESIDE_KEY, copies_of};
use crate::functions::documentation::document;
use crate::functions::site_argument::SiteArgument;
use crate::scan::notices::{LeftOut, NoticeSink, SiteTotals, Statistic};

/// An aggregate over allele counts, or over zygosity.
pub(crate) trait Definition: Debug + Send + Sync + 'static {
    /// What it computes.
    type Statistic: SiteStatistic;
    /// Its SQL name.
    const NAME: &'static str;
    /// What its counts arguments are.
    const ARGUMENT: SiteArgument = SiteArgument::AlleleCounts;
    /// The number of counts arguments, one for each population; the minimum if it is [`VARIADIC`](Self::VARIADIC).
    const COUNTS: usize;
    /// Whether any number of further counts arguments may follow.
    const VARIADIC: bool = false;
    /// Names of the constant integer arguments that follow them.
    const NUMBERS: &'static [&'static str] = &[];
    /// How many of these, from the last, may be left out.
    const OPTIONAL: usize = 0;
    /// Whether a number may also be a value of each site, not a constant.
    const NUMBERS_VARY: bool = false;

    /// Whether it reports the sites that it leaves out because copies are not called.
    const REPORTS_LEFT_OUT: bool = false;

    /// Whether the value of a group may take long to compute, though it is small.
    const IS_SLOW: bool = false;

    /// The type of its result.
    fn return_type() -> DataType;

    /// Its value over an empty frame. If that is not NULL, the function is declared to never return NULL.
    fn default_value() -> Result<ScalarValue> {
        ScalarValue::try_from(&Self::return_type())
    }

    /// Checks the populations' numbers of copies while planning; `numbers` integer arguments follow the counts.
    fn plan(_copies: &[Copies], _numbers: usize) -> Result<()> {
        Ok(())
    }

    /// The statistic for one call.
    fn statistic(call: &Call) -> Result<Self::Statistic>;

    /// Its documentation.
    fn documentation() -> Documentation;

    /// How many counts arguments a call may have.
    fn arity() -> RangeInclusive<usize> {
        let most = if Self::VARIADIC {
            usize::MAX
        } else {
            Self::COUNTS
        };
        Self::COUNTS..=most
    }
}

/// The number of copies N of a counts argument's population, as its metadata gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// Not given.
    Unknown,
    /// Not known before planning has run a subquery.
    Deferred,
    /// In another field of the struct that has the counts, for each row; planning makes it an argument of functions that take it.
    PerRow,
    /// N.
    Known(u64),
}

impl Copies {
    /// From the metadata of `field`.
    pub(crate) fn of(field: &Field) -> Result<Self> {
        Ok(match copies_of(field)? {
            None if field.metadata().contains_key(COPIES_BESIDE_KEY) => Self::PerRow,
            None => Self::Unknown,
            Some(None) => Self::Deferred,
            Some(Some(copies)) => Self::Known(copies),
        })
    }

    /// N, if it is known.
    pub(crate) fn known(self) -> Option<u64> {
        match self {
            Self::Known(copies) => Some(copies),
            _ => None,
        }
    }

    /// A planning error if the counts have no N; `instead` names functions that do not need it.
    pub(crate) fn plan(self, function: &str, instead: &str) -> Result<()> {
        match self {
            Self::Unknown | Self::PerRow => plan_err!(
                "{function} needs the number of copies N of the population, which is in the metadata of \
                 counts from allele_counts(call_genotype [, population]) ('vcz.copies', also in a \
                 Parquet file that kept it); these counts have none. {instead}"
            ),
            _ => Ok(()),
        }
    }

    /// N, or an execution error; `instead` names functions that do not need it.
    pub(crate) fn required(self, function: &str, instead: &str) -> Result<u64> {
        self.plan(function, instead)?;
        match self.known() {
            Some(copies) => Ok(copies),
            None => exec_err!(
                "{function}: the population must be constant (a name, a list of sample ids, or a \
                 subquery that is run while planning); this one's number of copies N is not known. \
                 {instead}"
            ),
        }
    }
}

/// The constants of one call.
#[derive(Debug)]
pub(crate) struct Call {
    /// The number of copies of each counts argument's population.
    pub(crate) copies: Vec<Copies>,
    /// The integer arguments, in order.
    pub(crate) numbers: Vec<i64>,
    /// Whether the next integer argument is a value of each site; see [`Definition::NUMBERS_VARY`].
    pub(crate) number_varies: bool,
    /// Receives the reports of sites that are left out.
    pub(crate) notices: NoticeSink,
    /// Counts the sites that are left out for EXPLAIN ANALYZE.
    pub(crate) totals: Option<Arc<SiteTotals>>,
}

impl Call {
    /// The number of copies of the population of counts argument `at`.
    pub(crate) fn copies(&self, at: usize) -> Copies {
        self.copies.get(at).copied().unwrap_or(Copies::Unknown)
    }

    /// Integer argument `at`, if given.
    pub(crate) fn number(&self, at: usize) -> Option<i64> {
        self.numbers.get(at).copied()
    }

    /// A counter of the sites without all of their `copies` copies, which `function` leaves out; no `copies` if they are the argument n.
    pub(crate) fn incomplete_sites(&self, function: &'static str, copies: &[u64]) -> LeftOut {
        let copies: Vec<String> = copies.iter().map(u64::to_string).collect();
        let copies = match copies.is_empty() {
            true => "n".to_string(),
            false => copies.join(" and "),
        };
        let statistic = Statistic {
            function: function.into(),
            call: format!("of {copies} copies"),
            reason: match self.copies.iter().all(|copies| copies.known().is_some()) {
                true => {
                    "not all copies are called there (missing calls, haploid samples); the projections project_sfs and \
                     project_joint_sfs keep such sites"
                }
                // The numbers are the user's.
                false => {
                    "not all copies are called there (missing calls, haploid samples, or the population has fewer copies than n); \
                     the projections project_sfs and project_joint_sfs keep such sites"
                }
            }
            .into(),
        };
        self.notices.counter(statistic, self.totals.clone())
    }

    /// A counter of the sites with fewer called copies than a projection to `m` copies of each population takes, which `function` leaves
    /// out.
    pub(crate) fn sites_with_fewer(&self, function: &'static str, m: &[u32]) -> LeftOut {
        let m: Vec<String> = m.iter().map(u32::to_string).collect();
        let statistic = Statistic {
            function: function.into(),
            call: format!("to {} copies", m.join(" and ")),
            reason: "fewer copies are called there; a projection to fewer copies keeps more sites, and GROUP BY allele_number(ac), \
                     derived_count(ac) counts all of them"
                .into(),
        };
        self.notices.counter(statistic, self.totals.clone())
    }

    /// Integer argument `at` of a function that requires it; the number of arguments was checked before.
    pub(crate) fn required_number(&self, function: &str, at: usize) -> Result<i64> {
        match self.number(at) {
            Some(number) => Ok(number),
            None => exec_err!("{function}: whole number {} is missing", at + 1),
        }
    }
}

/// Documents the counts argument of a function that takes one.
pub(crate) fn document_one(description: &str, syntax: &str, example: &str) -> DocumentationBuilder {
    document(description, syntax, example).with_argument(
        "ac",
        "Allele counts of a site (a list of integers; NULL is skipped), as allele_counts gives \
         them; or call_genotype and then, if not every sample is meant, a population.",
    )
}

/// Documents the counts arguments of a function that takes two.
pub(crate) fn document_two(description: &str, syntax: &str, example: &str) -> DocumentationBuilder {
    document_populations(
        description,
        syntax,
        example,
        &[
            ("ac1", "the first population"),
            ("ac2", "the second population"),
        ],
    )
}

/// Documents the arguments of a function of zygosity: their names, and which population each is of.
pub(crate) fn document_zygosity(
    description: &str,
    syntax: &str,
    example: &str,
    arguments: &[(&str, &str)],
) -> DocumentationBuilder {
    let mut builder = document(description, syntax, example);
    for (at, (name, population)) in arguments.iter().enumerate() {
        let text = match (at, arguments.len()) {
            (0, 1) => format!(
                "Complete diploids of {population}, as zygosity_counts gives them (NULL is skipped); or \
                 call_genotype and then, if not every sample is meant, a population."
            ),
            (0, _) => format!(
                "Complete diploids of {population}, as zygosity_counts gives them (NULL is skipped); or, \
                 in place of all of them, call_genotype and then the populations."
            ),
            _ => format!("Complete diploids of {population}, of the same site."),
        };
        builder = builder.with_argument(*name, text);
    }
    builder
}

/// Documents the counts arguments of a function of several populations: their names, and which population each is of.
pub(crate) fn document_populations(
    description: &str,
    syntax: &str,
    example: &str,
    arguments: &[(&str, &str)],
) -> DocumentationBuilder {
    let mut builder = document(description, syntax, example);
    for (at, (name, population)) in arguments.iter().enumerate() {
        let text = match at {
            0 => format!(
                "Allele counts of a site in {population} (a list of integers; NULL is skipped); \
                 or, in place of all counts, call_genotype and then the populations."
            ),
            _ => format!("Allele counts of the same site in {population}."),
        };
        builder = builder.with_argument(*name, text);
    }
    builder
}
