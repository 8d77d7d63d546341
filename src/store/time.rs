//! [`TimeType`]: the element type of NumPy's `datetime64` and `timedelta64`, a count of ticks of a unit.

use std::fmt;

use serde_json::{Value, json};

/// Points in time since 1970, or spans of time: signed 64-bit counts of ticks, of which the smallest means that there is none (NaT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeType {
    /// Whether values are spans (`timedelta64`), not points in time (`datetime64`).
    pub is_span: bool,
    /// The unit of [`TimeType::ticks`].
    pub unit: TickUnit,
    /// Units of a tick: 25 in `<M8[25s]`, 86,400 seconds in `<M8[D]`.
    pub ticks: u32,
}

/// The units in which Arrow counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TickUnit {
    /// `s`
    Second,
    /// `ms`
    Millisecond,
    /// `us`
    Microsecond,
    /// `ns`
    Nanosecond,
}

impl TickUnit {
    fn name(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Millisecond => "ms",
            Self::Microsecond => "us",
            Self::Nanosecond => "ns",
        }
    }
}

impl TimeType {
    /// The count that means that there is no time: NaT.
    pub const NONE: i64 = i64::MIN;

    /// The type of `scale` units of this name. `None` for months and years, which have no fixed length, and units below nanoseconds.
    pub(super) fn of(is_span: bool, unit: &str, scale: u64) -> Option<Self> {
        let (unit, each) = match unit {
            "W" => (TickUnit::Second, 7 * 86_400),
            "D" => (TickUnit::Second, 86_400),
            "h" => (TickUnit::Second, 3_600),
            "m" => (TickUnit::Second, 60),
            "s" => (TickUnit::Second, 1),
            "ms" => (TickUnit::Millisecond, 1),
            "us" | "μs" => (TickUnit::Microsecond, 1),
            "ns" => (TickUnit::Nanosecond, 1),
            _ => return None,
        };
        let ticks = scale.checked_mul(each)?;
        let ticks = u32::try_from(ticks).ok().filter(|ticks| *ticks > 0)?;
        Some(Self {
            is_span,
            unit,
            ticks,
        })
    }

    /// Reads what follows `M8` or `m8` in a v2 dtype: `[ns]`, `[25s]`.
    pub(super) fn parse_v2(is_span: bool, text: &str) -> Option<Self> {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        let digits = inner.len() - inner.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let scale = match &inner[..digits] {
            "" => 1,
            scale => scale.parse().ok()?,
        };
        Self::of(is_span, &inner[digits..], scale)
    }

    /// Reads the configuration of v3's `numpy.datetime64` and `numpy.timedelta64`.
    pub(super) fn parse_v3(is_span: bool, configuration: Option<&Value>) -> Option<Self> {
        let configuration = configuration?;
        let unit = configuration.get("unit")?.as_str()?;
        let scale = configuration
            .get("scale_factor")
            .map_or(Some(1), Value::as_u64)?;
        Self::of(is_span, unit, scale)
    }

    /// The v2 dtype.
    pub(super) fn dtype_v2(&self) -> String {
        format!("<{self}")
    }

    /// The v3 data type.
    pub(super) fn data_type_v3(&self) -> Value {
        let name = match self.is_span {
            true => "numpy.timedelta64",
            false => "numpy.datetime64",
        };
        json!({"name": name, "configuration": {"unit": self.unit.name(), "scale_factor": self.ticks}})
    }
}

impl fmt::Display for TimeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_span { "m8" } else { "M8" };
        let unit = self.unit.name();
        match self.ticks {
            1 => write!(f, "{kind}[{unit}]"),
            ticks => write!(f, "{kind}[{ticks}{unit}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let v2 = |text| TimeType::parse_v2(false, text).map(|time| time.dtype_v2());
        assert_eq!(v2("[ns]").unwrap(), "<M8[ns]");
        assert_eq!(v2("[25s]").unwrap(), "<M8[25s]");
        assert_eq!(v2("[D]").unwrap(), "<M8[86400s]");
        for wrong in [
            "",
            "[]",
            "[Y]",
            "[M]",
            "[as]",
            "[0s]",
            "ns",
            "[ns",
            "[99999999999999999999s]",
            "[4294967295W]",
        ] {
            assert_eq!(v2(wrong), None, "{wrong}");
        }
        let configuration = json!({"unit": "ms", "scale_factor": 10});
        let time = TimeType::parse_v3(true, Some(&configuration)).unwrap();
        assert_eq!(time.to_string(), "m8[10ms]");
        let again = time.data_type_v3();
        assert_eq!(
            TimeType::parse_v3(true, again.get("configuration")),
            Some(time)
        );
        assert_eq!(TimeType::parse_v3(true, None), None);
    }
}
