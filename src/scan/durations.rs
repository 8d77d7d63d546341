//! Times in options and on the command line: `'retry.timeout' '30s'`, `--query-timeout 10m`.

use std::time::Duration;

use crate::error::reason_error;

reason_error! {
    /// Why a text is not a time, and the valid form.
    DurationError
}

/// A time with an optional unit (`ms`, `s`, `m`, `h`, `d`; seconds without), at least 1 ms and at most 10 years.
///
/// # Errors
/// `DurationError`, which shows the valid form.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    let longest = 10 * 365 * 86_400_000;
    match number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(milliseconds))
    {
        Some(milliseconds) if (1..=longest).contains(&milliseconds) => {
            Ok(Duration::from_millis(milliseconds))
        }
        _ => Err(format!(
            "'{text}' is not a time: expected a number such as 500ms, 30s, 10m or 12h"
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let cases = [
            ("5", 5000),
            ("500ms", 500),
            ("30s", 30_000),
            ("10M", 600_000),
            ("12h", 43_200_000),
            ("1d", 86_400_000),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "0",
            "0ms",
            "-1s",
            "1.5h",
            "1w",
            "99999999999999999999s",
            "999999d",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
