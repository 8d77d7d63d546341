//! [`CallTest`]: what a filter of calls requires of the value of a FORMAT field. Made by planning, used by
//! [`CallMask`](super::CallMask); tests that let the same values pass are equal.

use std::fmt;

/// What a FORMAT value must be for its call to pass; a missing value never passes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallTest {
    /// Any value.
    Present,
    /// A whole number from `min` to `max`, both included; `None` is no bound. At least one of them is given.
    Integers {
        /// The smallest that passes.
        min: Option<i128>,
        /// The largest that passes.
        max: Option<i128>,
    },
    /// A floating-point number from `min` to `max`, both included, compared as 64-bit numbers; `None` is no bound. At least one
    /// of them is given. NaN does not pass.
    Floats {
        /// The smallest that passes.
        min: Option<FloatBound>,
        /// The largest that passes.
        max: Option<FloatBound>,
    },
    /// This string.
    Text(String),
    /// This flag.
    Flag(bool),
}

/// A bound of floating-point values: no NaN, and no negative zero, so that equal bounds have equal bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FloatBound(u64);

impl FloatBound {
    /// The bound `value`; `None` for NaN.
    pub fn new(value: f64) -> Option<Self> {
        // The sum is positive zero for both zeros.
        (!value.is_nan()).then(|| Self((value + 0.0).to_bits()))
    }

    /// Its value.
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// As the last arguments of `filter_calls`: `20, NULL`.
impl fmt::Display for CallTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn bounds<T: fmt::Display>(
            f: &mut fmt::Formatter<'_>,
            min: Option<T>,
            max: Option<T>,
        ) -> fmt::Result {
            match min {
                Some(min) => write!(f, "{min}, ")?,
                None => f.write_str("NULL, ")?,
            }
            match max {
                Some(max) => write!(f, "{max}"),
                None => f.write_str("NULL"),
            }
        }
        match self {
            Self::Present => f.write_str("NULL, NULL"),
            Self::Integers { min, max } => bounds(f, *min, *max),
            Self::Floats { min, max } => {
                bounds(f, min.map(FloatBound::value), max.map(FloatBound::value))
            }
            Self::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Self::Flag(flag) => write!(f, "{flag}"),
        }
    }
}
