//! [`check_pairs`]: the most pairs that aggregates over pairs of individuals or copies return.

use datafusion::common::{Result, exec_err};

use crate::counts::pairs::pairs_of;

/// Pairs that all values of a query may have.
const MOST_PAIRS: usize = 1 << 26;

/// Returns an error if the values of `groups` groups over the pairs of so many `units` ("samples") are more than a list can hold. `instead` is
/// what else may be called.
pub(super) fn check_pairs(
    name: &str,
    what: &str,
    units: usize,
    groups: usize,
    instead: Option<&str>,
) -> Result<()> {
    let pairs = pairs_of(units).saturating_mul(groups);
    if pairs <= MOST_PAIRS {
        return Ok(());
    }
    let over = match groups {
        1 => format!("{units} {what}"),
        groups => format!("{units} {what} in {groups} groups"),
    };
    let instead = match instead {
        Some(instead) if groups == 1 => format!(", or read {instead}"),
        _ => ", or make fewer groups".to_string(),
    };
    exec_err!(
        "{name} over {over} has {:.1e} pairs (limit {:.1e}): name a population of fewer samples{instead}",
        pairs as f64,
        MOST_PAIRS as f64
    )
}
