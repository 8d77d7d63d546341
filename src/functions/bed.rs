//! Reads BED files as accessibility [masks](super::mask): text, plain or compressed with gzip.
//!
//! Called by [`mask_source`](super::mask_source), which reads the file. BED is 0-based and half-open. Invariant: either every row of a file
//! is in the mask, or the result is an error that names the line.

use super::mask::{Mask, MaskBuilder};
use super::text_lines::{LineError, TextLines, shorten};
use crate::error::Result;

impl Mask {
    /// Reads BED text, plain or compressed with gzip or bgzip (recognised by the magic bytes). Errors refer to the mask as `name`.
    ///
    /// Fields are separated by tabs, or by spaces where a line has no tab; the first three are read. Blank lines and lines that
    /// begin with `#`, `track` or `browser` are skipped; rows of length 0 are ignored; rows may overlap and be in any order.
    ///
    /// # Errors
    /// [`VczError::Line`](crate::error::VczError::Line) for a row that is malformed, [`VczError::Io`](crate::error::VczError::Io)
    /// where decompression fails.
    pub fn from_bed(name: &str, bytes: &[u8]) -> Result<Self> {
        let mut builder = MaskBuilder::new(name);
        let mut lines = TextLines::new(name, "BED", bytes);
        while let Some((number, line)) = lines.next()? {
            match parse_bed_line(line) {
                Ok(Some((contig, start, stop))) => builder.push(contig, start, stop, number)?,
                Ok(None) => {}
                Err(reason) => return Err(lines.error(reason)),
            }
        }
        Ok(builder.finish())
    }
}

/// Contig, start and end of a line of BED; `None` for a line that is skipped.
fn parse_bed_line(line: &str) -> Result<Option<(&str, i64, i64)>, LineError> {
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if matches!(line.split_whitespace().next(), Some("track" | "browser")) {
        return Ok(None);
    }
    let mut tabbed = line.split('\t');
    let mut spaced = line.split_whitespace();
    let fields: &mut dyn Iterator<Item = &str> = if line.contains('\t') {
        &mut tabbed
    } else {
        &mut spaced
    };
    let (Some(contig), Some(start), Some(end)) = (fields.next(), fields.next(), fields.next())
    else {
        return Err(format!(
            "expected contig, start and end (BED), found '{}'",
            shorten(line)
        )
        .into());
    };
    let coordinate = |what: &str, text: &str| {
        text.trim()
            .parse::<i64>()
            .map_err(|_| format!("{what} must be a whole number, found '{}'", shorten(text)))
    };
    Ok(Some((
        contig.trim(),
        coordinate("start", start)?,
        coordinate("end", end)?,
    )))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line_error(bed: &str) -> String {
        Mask::from_bed("m.bed", bed.as_bytes())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn bed_is_half_open_and_rows_merge() {
        let bed = "# made by hand\ntrack name=x\nbrowser position x\n\n\
                   2L\t10\t20\tname\t0\n2L\t0\t3\r\n2L 20 25\n2L\t12\t14\n2R\t5\t5\n2L\t100\t101";
        let mask = Mask::from_bed("m.bed", bed.as_bytes()).unwrap();
        assert_eq!(mask.contigs().collect::<Vec<_>>(), ["2L", "2R"]);
        let inside: Vec<i64> = (-1..110)
            .filter(|&position| mask.contains("2L", position))
            .collect();
        let expected: Vec<i64> = (1..=3).chain(11..=25).chain([101]).collect();
        assert_eq!(inside, expected);
        assert!(!mask.contains("2R", 5) && !mask.contains("2R", 6) && !mask.contains("X", 1));
        for start in -2..110 {
            for stop in -2..110 {
                let expected = inside.iter().filter(|&&p| start <= p && p <= stop).count() as i64;
                assert_eq!(
                    mask.accessible_bases("2L", start, stop),
                    expected,
                    "{start}..={stop}"
                );
            }
        }
        assert_eq!(mask.accessible_bases("2L", i64::MIN, i64::MAX), 19);
        assert_eq!(mask.accessible_bases("X", 1, 100), 0);
    }

    #[test]
    fn gzip_is_told_by_its_magic_bytes() {
        let mut bytes = Vec::new();
        for part in ["1\t0\t5\n", "1\t7\t9\n"] {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(part.as_bytes()).unwrap();
            bytes.extend(encoder.finish().unwrap());
        }
        let mask = Mask::from_bed("m.bed.gz", &bytes).unwrap();
        assert_eq!(mask.accessible_bases("1", 1, 100), 7);
        let error = Mask::from_bed("m.bed.gz", &bytes[..bytes.len() - 4]).unwrap_err();
        assert!(error.to_string().contains("m.bed.gz"), "{error}");
    }

    #[test]
    fn malformed_lines_are_named() {
        assert_eq!(
            line_error("1\t0\t5\n1\t5\t4\n"),
            "'m.bed', line 2: end must not be below start, found start 5 and end 4"
        );
        assert!(line_error("1\t-1\t5").contains("start must not be below 0"));
        assert!(line_error("1\tx\t5").contains("start must be a whole number, found 'x'"));
        assert!(line_error("1\t0\t1e3").contains("end must be a whole number"));
        assert!(line_error("1\t0").contains("expected contig, start and end"));
        assert!(line_error("\t0\t4").contains("the contig has no name"));
        assert!(line_error("1\t0\t99999999999999999999").contains("whole number"));
        assert!(
            Mask::from_bed("m", &[b'1', 0xff, b'\n'])
                .unwrap_err()
                .to_string()
                .contains("UTF-8")
        );
        let long = vec![b'x'; crate::functions::text_lines::MAX_LINE as usize + 10];
        assert!(
            Mask::from_bed("m", &long)
                .unwrap_err()
                .to_string()
                .contains("longer than")
        );
    }
}
