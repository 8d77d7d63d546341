//! [`CallFilters`]: filters of genotype calls, which a scan applies. Planning makes them from `filter_calls`; `read`, or a GPU,
//! masks the decoded genotypes with them.
//!
//! Invariant: sorted and unique, so that the order in which filters are nested makes no difference.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::counts::CallTest;

/// A call passes if a value of a FORMAT field passes a test.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldCondition {
    /// The field's array.
    pub array: String,
    /// The 0-based index of the call's value that is tested; `None` if calls have one value.
    pub value: Option<usize>,
    /// The test.
    pub test: CallTest,
}

/// A conjunction of conditions. In calls that do not pass, the copies (codes other than −2) are taken as −1, missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CallFilters(Arc<BTreeSet<FieldCondition>>);

impl CallFilters {
    /// These filters and `condition`.
    pub fn and(&self, condition: FieldCondition) -> Self {
        let mut filters = self.0.as_ref().clone();
        filters.insert(condition);
        Self(Arc::new(filters))
    }

    /// These filters.
    pub fn of(conditions: impl IntoIterator<Item = FieldCondition>) -> Self {
        Self(Arc::new(conditions.into_iter().collect()))
    }

    /// Whether every call passes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The filters.
    pub fn iter(&self) -> impl Iterator<Item = &FieldCondition> {
        self.0.iter()
    }
}

/// The filtered genotypes as SQL: `filter_calls(call_genotype, call_GQ, 20, NULL)`.
impl fmt::Display for CallFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in self.iter() {
            f.write_str("filter_calls(")?;
        }
        f.write_str("call_genotype")?;
        for FieldCondition { array, value, test } in self.iter() {
            match value {
                Some(value) => write!(f, ", call_value({array}, {}), {test})", value + 1)?,
                None => write!(f, ", {array}, {test})")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_nesting_makes_no_difference() {
        let filter = |array: &str, value, min| FieldCondition {
            array: array.to_string(),
            value,
            test: CallTest::Integers { min, max: Some(9) },
        };
        let (one, other) = (
            filter("call_GQ", None, Some(2)),
            filter("call_AD", Some(1), None),
        );
        let none = CallFilters::default();
        let both = none.and(one.clone()).and(other.clone());
        assert_eq!(both, none.and(other.clone()).and(one.clone()).and(one));
        assert_ne!(both, none.and(other));
        assert_eq!(
            both.to_string(),
            "filter_calls(filter_calls(call_genotype, call_value(call_AD, 2), NULL, 9), call_GQ, 2, 9)"
        );
        assert_eq!(none.to_string(), "call_genotype");
        assert!(none.is_empty() && !both.is_empty());
    }
}
