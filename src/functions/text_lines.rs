//! Lines of text files (masks, annotations), plain or compressed with gzip or bgzip, each with its number.

use std::io::{BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

use crate::error::{Result, VczError, reason_error};

reason_error! {
    /// Why a line is malformed: what was expected and what was found. The reader adds the file and the line's number, see
    /// [`TextLines::error`].
    LineError
}

/// Longest line, in bytes; a longer one is an error, so that a file without line breaks is not buffered whole.
pub(super) const MAX_LINE: u64 = 1 << 20;

/// Reads a file line by line.
pub struct TextLines<'a> {
    /// The file's name and expected format, for errors.
    name: &'a str,
    format: &'a str,
    reader: Box<dyn BufRead + Send + 'a>,
    buffer: Vec<u8>,
    number: u64,
}

impl<'a> TextLines<'a> {
    /// Reads the file `name`, which should have `format`. Compression is recognised by the magic bytes.
    pub fn new(name: &'a str, format: &'a str, bytes: &'a [u8]) -> Self {
        let reader: Box<dyn BufRead + Send + 'a> = match bytes.starts_with(&[0x1f, 0x8b]) {
            true => Box::new(BufReader::new(MultiGzDecoder::new(bytes))),
            false => Box::new(bytes),
        };
        Self {
            name,
            format,
            reader,
            buffer: vec![],
            number: 0,
        }
    }

    /// The next line, without its end, and its number from 1; `None` after the last.
    ///
    /// # Errors
    /// [`VczError::Line`] for one that is too long, or not UTF-8; [`VczError::Io`] where decompression fails.
    pub fn next(&mut self) -> Result<Option<(u64, &str)>> {
        self.buffer.clear();
        self.number += 1;
        let read = self
            .reader
            .by_ref()
            .take(MAX_LINE + 1)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| VczError::Io {
                store: self.name.to_string(),
                key: format!("line {}", self.number),
                source: Box::new(error),
            })?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 > MAX_LINE {
            return Err(self.error(format!(
                "the line is longer than {MAX_LINE} bytes; expected {}",
                self.format
            )));
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(line) => Ok(Some((self.number, line.trim_end_matches(['\n', '\r'])))),
            Err(_) => Err(self.error(format!(
                "not UTF-8 text; expected {}, plain or gzip",
                self.format
            ))),
        }
    }

    /// An error about the line that was read last.
    pub fn error(&self, reason: impl Into<String>) -> VczError {
        VczError::Line {
            file: self.name.to_string(),
            line: self.number,
            reason: reason.into(),
        }
    }
}

/// The beginning of a line, for messages.
pub fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}
