//! [`RowSpill`]: rows of a row of chunks that do not fit into memory, in a temporary file, by chunks.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::{Result, exec_err};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SpillFile, SpillWriter};

use super::spilled_part::{Piece, SpilledFile};
use crate::codec::ChunkData;

/// A temporary file that is written. Dropping all that was made of it removes the file.
pub struct RowSpill {
    file: Arc<dyn SpillFile>,
    path: PathBuf,
    writer: Box<dyn SpillWriter>,
    length: u64,
}

impl RowSpill {
    /// An empty file.
    ///
    /// # Errors
    /// If the session has no temporary files.
    pub fn try_new(runtime: &RuntimeEnv) -> Result<Self> {
        let what = "rows of a VCZ store that is written";
        let file = runtime.disk_manager.create_tmp_file(what);
        let file = file.map_err(|error| {
            error.context(
                "a row of chunks has more than fits into memory, and needs a temporary file; set 'vcz.variants_chunk_size' to less",
            )
        })?;
        let Some(path) = file.path().map(ToOwned::to_owned) else {
            return exec_err!(
                "a row of chunks has more than fits into memory, and the session's temporary files are not local ones; set \
                 'vcz.variants_chunk_size' to less"
            );
        };
        Ok(Self {
            writer: file.open_writer()?,
            file,
            path,
            length: 0,
        })
    }

    /// Appends rows of one chunk.
    ///
    /// # Errors
    /// Of the file system, or if the session's temporary files have become too large.
    pub fn push(&mut self, rows: &ChunkData) -> Result<Piece> {
        let at = self.length;
        let (length, offsets) = match rows {
            ChunkData::Fixed(bytes) => {
                self.writer.write_all(bytes)?;
                (bytes.len(), 0)
            }
            ChunkData::Strings(strings) => {
                let offsets: &[u8] = bytemuck::cast_slice(&strings.offsets);
                self.writer.write_all(offsets)?;
                self.writer.write_all(&strings.data)?;
                (offsets.len() + strings.data.len(), strings.offsets.len())
            }
        };
        self.length += length as u64;
        Ok(Piece {
            at,
            length,
            offsets,
        })
    }

    /// The complete file.
    ///
    /// # Errors
    /// Of the file system.
    pub fn finish(mut self) -> Result<Arc<SpilledFile>> {
        self.writer.flush()?;
        self.writer.finish()?;
        Ok(Arc::new(SpilledFile::new(self.path, self.file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::StringChunk;
    use crate::scan::write::spilled_part::SpilledPart;
    use crate::store::write::NewArray;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut text = StringChunk::default();
        for word in ["A", "", "ACGT"] {
            text.push(word).unwrap();
        }
        let mut spill = RowSpill::try_new(&RuntimeEnv::default()).unwrap();
        let fixed = |bytes: Vec<u8>| ChunkData::Fixed(bytes.into());
        let numbers = spill.push(&fixed(vec![1, 2, 3])).unwrap();
        let words = ChunkData::Strings(text.clone());
        let one = spill.push(&words).unwrap();
        let more = spill.push(&fixed(vec![4])).unwrap();
        let other = spill.push(&words).unwrap();
        let file = spill.finish().unwrap();
        let mut read = vec![];
        let part = SpilledPart::new(Arc::clone(&file), vec![numbers, more]);
        part.pieces(|piece| read.push(piece.to_vec())).unwrap();
        assert_eq!(read, [vec![1, 2, 3], vec![4]]);
        assert_eq!(part.bytes(), 4);
        drop(part);
        let part = SpilledPart::new(Arc::clone(&file), vec![one, other]);
        let array = NewArray {
            name: "variant_x".to_string(),
            format: crate::store::ZarrFormat::V2,
            element: crate::store::ElementType::String,
            row_shape: vec![],
            chunks: vec![6],
            dimensions: vec![],
            attributes: Default::default(),
            compression: Default::default(),
        };
        let strings = part.strings(&array).unwrap();
        assert_eq!(
            strings.iter().collect::<Vec<_>>(),
            ["A", "", "ACGT", "A", "", "ACGT"]
        );
        let path = file.path.clone();
        assert!(path.exists());
        drop((part, file));
        assert!(!path.exists());
    }
}
