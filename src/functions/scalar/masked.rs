//! The mask of `is_accessible` and `accessible_bases`, which is bound during planning.
//!
//! Both functions are registered without a mask. Planning loads the mask that the last argument names (a BED path or a registered
//! table) and replaces the function by a bound one with the same name and arguments.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{Result, plan_err};

use crate::functions::mask::Mask;

/// The documentation of the mask argument.
pub(super) const MASK: (&str, &str) = (
    "mask",
    "Path of a BED file (0-based, half-open; may be compressed with gzip or bgzip), or name of a registered table with \
     the columns contig, start and end in the same convention. A constant.",
);

/// The mask of a bound function, or none. Equal if names and intervals are equal.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound(Option<Arc<Mask>>);

impl Bound {
    pub(super) fn new(mask: Arc<Mask>) -> Self {
        Self(Some(mask))
    }

    /// The mask, if there is one.
    pub(super) fn mask(&self) -> Option<&Arc<Mask>> {
        self.0.as_ref()
    }

    /// The mask.
    ///
    /// # Errors
    /// An error that says what the argument must be, if no mask is bound.
    pub(super) fn get(&self, function: &str) -> Result<&Arc<Mask>> {
        match &self.0 {
            Some(mask) => Ok(mask),
            None => plan_err!(
                "{function}: the mask must be a constant, the path of a BED file or the name of a registered table, \
                 so that it can be loaded while planning"
            ),
        }
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // Plans compare expressions often; intervals are compared only if the mask was loaded twice.
            (Some(mask), Some(other)) => Arc::ptr_eq(mask, other) || mask == other,
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for Bound {}

impl Hash for Bound {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ref().map(|mask| mask.name()).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    #[test]
    fn equality_is_by_content() {
        let bound =
            |name, end| Bound::new(Arc::new(Mask::from_rows(name, [("1", 0, end)]).unwrap()));
        assert_eq!(bound("m", 5), bound("m", 5));
        assert_ne!(bound("m", 5), bound("m", 6));
        assert_ne!(bound("m", 5), bound("n", 5));
        assert_ne!(bound("m", 5), Bound::default());
        assert_eq!(Bound::default(), Bound::default());
        let state = RandomState::new();
        assert_eq!(state.hash_one(bound("m", 5)), state.hash_one(bound("m", 5)));
    }
}
