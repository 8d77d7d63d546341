//! Rows of annotation files: GFF3, GTF and BED. The tables over them are in [`session`](crate::session).
//!
//! GFF3 and GTF are 1-based and inclusive, like positions in VCZ: a site is in a gene if `variant_position BETWEEN start AND stop`.
//! BED tables are 0-based and half-open, like the files: `variant_position > start AND variant_position <= "end"`.
//!
//! The readers of noodles (noodles-gff, noodles-gtf, noodles-bed) are well kept, but would add more than ten crates to this one's, among them the
//! indexes CSI and tabix, do not limit the length of a line, and do not name the line in errors. So lines are read here, by `TextLines`, as
//! those of masks are.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Builder, Int8Builder, Int64Builder, ListBuilder, MapBuilder, RecordBatch,
    StringBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use percent_encoding::percent_decode_str;

use super::table::metadata::columns::string_map;
use super::text_lines::{LineError, TextLines, shorten};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationFormat {
    /// Generic Feature Format, version 3.
    Gff3,
    /// Gene Transfer Format.
    Gtf,
    /// Browser Extensible Data, of 3 to 12 columns.
    Bed,
}

impl AnnotationFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gff3, Self::Gtf, Self::Bed];

    /// Its name, as in `STORED AS GFF3`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gff3 => "GFF3",
            Self::Gtf => "GTF",
            Self::Bed => "BED",
        }
    }

    /// The format of a file of this name, by its extension; a final `.gz` or `.bgz` is ignored.
    pub fn of_file(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let plain = [".gz", ".bgz"]
            .iter()
            .find_map(|end| lower.strip_suffix(end));
        match plain.unwrap_or(&lower).rsplit_once('.')?.1 {
            "gff3" | "gff" => Some(Self::Gff3),
            "gtf" => Some(Self::Gtf),
            "bed" => Some(Self::Bed),
            _ => None,
        }
    }

    /// The columns of its table.
    ///
    /// * GFF3 and GTF: `contig`, `source`, `type`, `start` and `stop` (1-based, inclusive), `score`, `strand` (`+`, `-`, `?`), `phase`,
    ///   `attributes` (a map; several values of an attribute are joined by commas).
    /// * BED: `contig`, `start` and `end` (0-based, half-open), `name`, `score`, `strand`, `fields` (the columns from the seventh on).
    pub fn schema(self) -> SchemaRef {
        let text = DataType::Utf8;
        let fields = match self {
            Self::Gff3 | Self::Gtf => vec![
                Field::new("contig", text.clone(), false),
                Field::new("source", text.clone(), true),
                Field::new("type", text.clone(), false),
                Field::new("start", DataType::Int64, false),
                Field::new("stop", DataType::Int64, false),
                Field::new("score", DataType::Float64, true),
                Field::new("strand", text, true),
                Field::new("phase", DataType::Int8, true),
                Field::new("attributes", string_map(), false),
            ],
            Self::Bed => vec![
                Field::new("contig", text.clone(), false),
                Field::new("start", DataType::Int64, false),
                Field::new("end", DataType::Int64, false),
                Field::new("name", text.clone(), true),
                Field::new("score", DataType::Float64, true),
                Field::new("strand", text.clone(), true),
                Field::new("fields", DataType::new_list(text, true), false),
            ],
        };
        Arc::new(Schema::new(fields))
    }

    /// Reads the file `name`, whose bytes are plain or gzip, and passes its rows to `emit` in batches of `batch_rows`, until `emit` says
    /// that no more are wanted.
    ///
    /// # Errors
    /// [`VczError`](crate::error::VczError) that names the line of a malformed row.
    pub fn read(
        self,
        name: &str,
        bytes: &[u8],
        batch_rows: usize,
        mut emit: impl FnMut(RecordBatch) -> bool,
    ) -> Result<()> {
        let mut lines = TextLines::new(name, self.name(), bytes);
        let mut rows = Rows::new(self);
        while let Some((_, line)) = lines.next()? {
            if self == Self::Gff3 && line.starts_with("##FASTA") {
                break;
            }
            let added = rows.add(line);
            added.map_err(|reason| lines.error(reason))?;
            if rows.count() >= batch_rows.max(1) && !emit(rows.finish()?) {
                return Ok(());
            }
        }
        if rows.count() > 0 {
            emit(rows.finish()?);
        }
        Ok(())
    }
}

/// The rows of a batch.
struct Rows {
    format: AnnotationFormat,
    contig: StringBuilder,
    source: StringBuilder,
    kind: StringBuilder,
    start: Int64Builder,
    stop: Int64Builder,
    name: StringBuilder,
    score: Float64Builder,
    strand: StringBuilder,
    phase: Int8Builder,
    attributes: MapBuilder<StringBuilder, StringBuilder>,
    fields: ListBuilder<StringBuilder>,
    count: usize,
}

impl Rows {
    fn new(format: AnnotationFormat) -> Self {
        Self {
            format,
            contig: StringBuilder::new(),
            source: StringBuilder::new(),
            kind: StringBuilder::new(),
            start: Int64Builder::new(),
            stop: Int64Builder::new(),
            name: StringBuilder::new(),
            score: Float64Builder::new(),
            strand: StringBuilder::new(),
            phase: Int8Builder::new(),
            attributes: MapBuilder::new(None, StringBuilder::new(), StringBuilder::new()),
            fields: ListBuilder::new(StringBuilder::new()),
            count: 0,
        }
    }

    fn count(&self) -> usize {
        self.count
    }

    /// Adds a line, if it is a row. The error says what is wrong with it.
    fn add(&mut self, line: &str) -> Result<(), LineError> {
        let is_row = !line.trim().is_empty() && !line.starts_with('#');
        if !is_row {
            return Ok(());
        }
        match self.format {
            AnnotationFormat::Bed => self.add_bed(line),
            AnnotationFormat::Gff3 | AnnotationFormat::Gtf => self.add_feature(line),
        }
    }

    fn add_feature(&mut self, line: &str) -> Result<(), LineError> {
        let fields: Vec<&str> = line.split('\t').collect();
        // Some writers leave the last column out.
        let (contig, source, kind, start, stop, score, strand, phase, attributes) = match fields[..]
        {
            [
                contig,
                source,
                kind,
                start,
                stop,
                score,
                strand,
                phase,
                attributes,
            ] => (
                contig, source, kind, start, stop, score, strand, phase, attributes,
            ),
            [contig, source, kind, start, stop, score, strand, phase] => {
                (contig, source, kind, start, stop, score, strand, phase, "")
            }
            _ => {
                return Err(format!(
                    "expected 9 columns ({}), found {}: '{}'",
                    self.format.name(),
                    fields.len(),
                    shorten(line)
                )
                .into());
            }
        };
        let (start, stop) = (coordinate("start", start)?, coordinate("end", stop)?);
        if start < 1 || stop < start {
            return Err(format!(
                "expected 1 <= start <= end ({} is 1-based, inclusive), found {start} and {stop}",
                self.format.name()
            )
            .into());
        }
        let score = number("score", score)?;
        let strand = match strand {
            "." => None,
            "+" | "-" | "?" => Some(strand),
            other => {
                return Err(
                    format!("strand must be +, -, ? or ., found '{}'", shorten(other)).into(),
                );
            }
        };
        let phase = match phase {
            "." => None,
            "0" => Some(0),
            "1" => Some(1),
            "2" => Some(2),
            other => {
                return Err(
                    format!("phase must be 0, 1, 2 or ., found '{}'", shorten(other)).into(),
                );
            }
        };
        let attributes = match self.format {
            AnnotationFormat::Gtf => gtf_attributes(attributes)?,
            _ => gff_attributes(attributes)?,
        };
        for (name, value) in attributes {
            self.attributes.keys().append_value(name);
            self.attributes.values().append_value(value);
        }
        self.attributes
            .append(true)
            .map_err(|error| error.to_string())?;
        self.contig.append_value(self.decoded(contig)?);
        self.source.append_option(
            given(source)
                .map(|source| self.decoded(source))
                .transpose()?,
        );
        self.kind.append_value(self.decoded(kind)?);
        self.start.append_value(start);
        self.stop.append_value(stop);
        self.score.append_option(score);
        self.strand.append_option(strand);
        self.phase.append_option(phase);
        self.count += 1;
        Ok(())
    }

    /// The text of a column: GFF3 has escapes (%09), GTF does not.
    fn decoded<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, LineError> {
        match self.format {
            AnnotationFormat::Gff3 => unescaped(text),
            _ => Ok(Cow::Borrowed(text)),
        }
    }

    fn add_bed(&mut self, line: &str) -> Result<(), LineError> {
        if matches!(line.split_whitespace().next(), Some("track" | "browser")) {
            return Ok(());
        }
        let fields: Vec<&str> = match line.contains('\t') {
            true => line.split('\t').map(str::trim).collect(),
            false => line.split_whitespace().collect(),
        };
        let [contig, start, end, others @ ..] = fields.as_slice() else {
            return Err(format!(
                "expected contig, start and end (BED), found '{}'",
                shorten(line)
            )
            .into());
        };
        let (start, end) = (coordinate("start", start)?, coordinate("end", end)?);
        if start < 0 || end < start {
            return Err(format!(
                "expected 0 <= start <= end (BED is 0-based, half-open), found {start} and {end}"
            )
            .into());
        }
        let other = |at: usize| others.get(at).copied().unwrap_or(".");
        let score = number("score", other(1))?;
        self.contig.append_value(contig);
        self.start.append_value(start);
        self.stop.append_value(end);
        self.name.append_option(given(other(0)));
        self.score.append_option(score);
        self.strand.append_option(given(other(2)));
        for field in others.iter().skip(3) {
            self.fields.values().append_value(field);
        }
        self.fields.append(true);
        self.count += 1;
        Ok(())
    }

    /// Removes all rows and returns them as a batch.
    fn finish(&mut self) -> Result<RecordBatch> {
        self.count = 0;
        let columns: Vec<ArrayRef> = match self.format {
            AnnotationFormat::Bed => vec![
                Arc::new(self.contig.finish()),
                Arc::new(self.start.finish()),
                Arc::new(self.stop.finish()),
                Arc::new(self.name.finish()),
                Arc::new(self.score.finish()),
                Arc::new(self.strand.finish()),
                Arc::new(self.fields.finish()),
            ],
            AnnotationFormat::Gff3 | AnnotationFormat::Gtf => vec![
                Arc::new(self.contig.finish()),
                Arc::new(self.source.finish()),
                Arc::new(self.kind.finish()),
                Arc::new(self.start.finish()),
                Arc::new(self.stop.finish()),
                Arc::new(self.score.finish()),
                Arc::new(self.strand.finish()),
                Arc::new(self.phase.finish()),
                Arc::new(self.attributes.finish()),
            ],
        };
        Ok(RecordBatch::try_new(self.format.schema(), columns)?)
    }
}

/// The text of a column, unless it is `.` or empty.
fn given(text: &str) -> Option<&str> {
    (!matches!(text, "." | "")).then_some(text)
}

fn coordinate(what: &str, text: &str) -> Result<i64, LineError> {
    text.trim()
        .parse()
        .map_err(|_| format!("{what} must be a whole number, found '{}'", shorten(text)).into())
}

fn number(what: &str, text: &str) -> Result<Option<f64>, LineError> {
    let parsed = given(text).map(|text| text.trim().parse());
    parsed
        .transpose()
        .map_err(|_| format!("{what} must be a number or ., found '{}'", shorten(text)).into())
}

/// `text` with its escapes (`%3B`) decoded.
fn unescaped(text: &str) -> Result<Cow<'_, str>, LineError> {
    percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| format!("its escapes are not UTF-8: '{}'", shorten(text)).into())
}

/// Names and values.
type Attributes<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// `ID=gene1;Alias=a,b`: names and values. Escapes are decoded after the text is split.
fn gff_attributes(text: &str) -> Result<Attributes<'_>, LineError> {
    let fields = text.split(';').map(str::trim);
    fields
        .filter(|field| given(field).is_some())
        .map(|field| match field.split_once('=') {
            Some((name, value)) => Ok((unescaped(name)?, unescaped(value)?)),
            None => Err(LineError::from(format!(
                "expected attributes such as ID=gene1;Name=x, found '{}'",
                shorten(field)
            ))),
        })
        .collect()
}

/// `gene_id "g1"; level 2;`: names and values. The values of a repeated name are joined by commas.
fn gtf_attributes(text: &str) -> Result<Attributes<'_>, LineError> {
    let mut attributes: Attributes<'_> = vec![];
    let mut rest = text.trim();
    while given(rest).is_some() {
        let wrong = || {
            format!(
                "expected attributes such as gene_id \"g1\"; level 2;, found '{}'",
                shorten(rest)
            )
        };
        let (name, after) = rest.split_once(char::is_whitespace).ok_or_else(wrong)?;
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let (value, next) = quoted.split_once('"').ok_or_else(wrong)?;
                match next.trim_start() {
                    "" => (value, ""),
                    next => (value, next.strip_prefix(';').ok_or_else(wrong)?),
                }
            }
            None => after.split_once(';').unwrap_or((after, "")),
        };
        match attributes.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => {
                let values = values.to_mut();
                values.push(',');
                values.push_str(value.trim());
            }
            None => attributes.push((Cow::Borrowed(name), Cow::Borrowed(value.trim()))),
        }
        rest = next.trim();
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use arrow::util::pretty::pretty_format_batches;

    use super::*;

    fn rows(format: AnnotationFormat, text: &str) -> Result<String> {
        let mut batches = vec![];
        format.read("a.txt", text.as_bytes(), 2, |batch| {
            batches.push(batch);
            true
        })?;
        let text = pretty_format_batches(&batches)?.to_string();
        Ok(text.lines().skip(3).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn gff3() {
        let text = "##gff-version 3\n#!build x\n\n\
            chr%201\tsrc\tgene\t10\t20\t.\t+\t.\tID=g%3B1;Alias=a,b; Name = x\n\
            2\t.\tCDS\t1\t1\t0.5\t?\t2\t.\r\n\
            2\t.\texon\t5\t9\t1e3\t.\t.\n##FASTA\n>2\nACGT\n";
        let shown = rows(AnnotationFormat::Gff3, text).unwrap();
        for expected in [
            "| chr 1  | src    | gene | 10    | 20   |        | +      |       | {ID: g;1, Alias: a,b, Name :  x} |",
            "| 2      |        | CDS  | 1     | 1    | 0.5    | ?      | 2     | {} ",
            "| 2      |        | exon | 5     | 9    | 1000.0 |        |       | {} ",
        ] {
            assert!(shown.contains(expected), "{shown}");
        }
    }

    #[test]
    fn gtf() {
        let text = "#!genome\nX\thav\texon\t3\t4\t.\t-\t.\tgene_id \"g 1; a\"; tag \"b\"; level 2; tag \"c\";\n";
        let shown = rows(AnnotationFormat::Gtf, text).unwrap();
        assert!(
            shown.contains("{gene_id: g 1; a, tag: b,c, level: 2}"),
            "{shown}"
        );
    }

    #[test]
    fn bed() {
        let text = "track name=x\nchr1\t0\t5\nchr1 7 9 peak 10 - 7 8\n#c\n";
        let shown = rows(AnnotationFormat::Bed, text).unwrap();
        assert!(
            shown.contains("| chr1   | 0     | 5   |      |       |        | []     |"),
            "{shown}"
        );
        assert!(
            shown.contains("| chr1   | 7     | 9   | peak | 10.0  | -      | [7, 8] |"),
            "{shown}"
        );
    }

    #[test]
    fn malformed_lines_are_named() {
        use AnnotationFormat::{Bed, Gff3, Gtf};
        let feature = |start: &str, strand: &str, attributes: &str| {
            format!("1\ts\tgene\t{start}\t20\t.\t{strand}\t.\t{attributes}\n")
        };
        for (format, text, reason) in [
            (Gff3, "1\tgene\n".to_string(), "expected 9 columns"),
            (Gff3, feature("0", "+", "."), "1 <= start <= end"),
            (Gff3, feature("21", "+", "."), "1 <= start <= end"),
            (Gff3, feature("x", "+", "."), "start must be a whole number"),
            (
                Gff3,
                feature("99999999999999999999", "+", "."),
                "start must be a whole number",
            ),
            (Gff3, feature("1", "*", "."), "strand must be"),
            (Gff3, feature("1", "+", "gene_id \"x\""), "ID=gene1"),
            (Gff3, feature("1", "+", "ID=%FF"), "not UTF-8"),
            (Gtf, feature("1", "+", "gene_id \"x"), "gene_id \"g1\""),
            (Gtf, feature("1", "+", "alone"), "gene_id \"g1\""),
            (Gtf, feature("1", "+", "a \"x\" b \"y\""), "gene_id \"g1\""),
            (Bed, "1\t5\t4\n".to_string(), "0 <= start <= end"),
            (Bed, "1\t5\n".to_string(), "expected contig, start and end"),
            (
                Bed,
                "1\t5\t6\tn\tlow\n".to_string(),
                "score must be a number",
            ),
        ] {
            let error = rows(format, &format!("#\n{text}")).unwrap_err().to_string();
            assert!(
                error.contains("'a.txt', line 2") && error.contains(reason),
                "{error}"
            );
        }
    }

    #[test]
    fn formats_by_name() {
        let of = AnnotationFormat::of_file;
        assert_eq!(of("a/genes.GFF3.gz"), Some(AnnotationFormat::Gff3));
        assert_eq!(of("genes.gtf.bgz"), Some(AnnotationFormat::Gtf));
        assert_eq!(of("genes.bed"), Some(AnnotationFormat::Bed));
        assert_eq!((of("genes.csv.gz"), of("bed")), (None, None));
    }
}
