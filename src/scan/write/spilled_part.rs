//! [`SpilledPart`]: the rows of one chunk in a temporary file, which [`row_spill`](super::row_spill) has written.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SpillFile;

use super::array_error::of;
use crate::codec::StringChunk;
use crate::store::write::NewArray;

/// A part of the file.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// Where it begins.
    pub at: u64,
    /// Bytes.
    pub length: usize,
    /// How many offsets of text come first; zero for numbers.
    pub offsets: usize,
}

/// A complete file.
pub struct SpilledFile {
    /// Where it is.
    pub path: PathBuf,
    _file: Arc<dyn SpillFile>,
}

impl SpilledFile {
    /// The file at `path`, which is removed with `file`.
    pub fn new(path: PathBuf, file: Arc<dyn SpillFile>) -> Self {
        Self { path, _file: file }
    }
}

/// The rows of one chunk in a file.
pub struct SpilledPart {
    file: Arc<SpilledFile>,
    pieces: Vec<Piece>,
}

impl std::fmt::Debug for SpilledPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pieces of {:?}", self.pieces.len(), self.file.path)
    }
}

impl SpilledPart {
    /// The `pieces` of a file.
    pub fn new(file: Arc<SpilledFile>, pieces: Vec<Piece>) -> Self {
        Self { file, pieces }
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.length).sum()
    }

    /// Reads one piece after the other.
    ///
    /// # Errors
    /// Of the file system.
    pub fn pieces(&self, mut each: impl FnMut(&[u8])) -> Result<()> {
        let mut file = File::open(&self.file.path).map_err(DataFusionError::from)?;
        let mut bytes = Vec::new();
        for piece in &self.pieces {
            file.seek(SeekFrom::Start(piece.at))?;
            bytes.resize(piece.length, 0);
            file.read_exact(&mut bytes)?;
            each(&bytes);
        }
        Ok(())
    }

    /// The text of all rows.
    ///
    /// # Errors
    /// Of the file system; or if there is more than 4 GiB of it.
    pub fn strings(&self, array: &NewArray) -> Result<StringChunk> {
        let mut all = StringChunk::default();
        let mut pieces = self.pieces.iter();
        let mut failure = None;
        self.pieces(|bytes| {
            let offsets = pieces.next().map_or(0, |piece| piece.offsets);
            let (offsets, data) = bytes.split_at(4 * offsets);
            let piece = StringChunk {
                offsets: bytemuck::pod_collect_to_vec(offsets),
                data: data.to_vec(),
            };
            for text in piece.iter() {
                if let Err(reason) = all.push(text) {
                    failure.get_or_insert(reason);
                }
            }
        })?;
        match failure {
            Some(reason) => Err(of(array, reason)),
            None => Ok(all),
        }
    }
}
