//! Numbers of bytes on the command line: `-m 300M`, `-d 10g`.

/// A number of bytes with an optional unit (`b`, `k`, `kb`, … `tb`, of 1024 each, in any case), at least 1.
///
/// # Errors
/// A message that shows the valid form.
pub fn parse(text: &str) -> Result<usize, String> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => {
            return Err(format!(
                "'{text}' is not a size: expected a number of bytes such as 1000000, 300M or 10g"
            ));
        }
    };
    let number: usize = number.parse().map_err(|_| {
        format!("'{text}' is not a size: expected a number of bytes such as 1000000, 300M or 10g")
    })?;
    match number.checked_mul(1usize << shift) {
        Some(0) => Err("the size must be at least 1 byte".to_string()),
        Some(bytes) => Ok(bytes),
        None => Err(format!("'{text}' is too large")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn units() {
        let cases = [
            ("5", 5),
            ("5b", 5),
            ("4k", 4 << 10),
            ("20MB", 20 << 20),
            ("2g", 2 << 30),
            ("3T", 3 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "b",
            "-1",
            "0",
            "0g",
            "1.5g",
            "1 q",
            "99999999999999t",
            "4kk",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
