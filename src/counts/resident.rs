//! Rows of bit-planes that stay on the device that made them: [`ResidentRows`], the rows of a chunk, which `gpu` implements; [`RowMark`], what
//! stands for such a row in a column of planes; [`ResidentPlanes`], the chunks of a partition.
//!
//! The scan registers the chunks that it has rows of, and emits marks. The operator above it looks them up, lets the device count the rows where
//! they are, and releases chunks. Invariants: a mark is only valid in the execution that made it, so a scan emits marks only where that
//! operator asks for them; a chunk lives until all its rows have been emitted and used, or until the partition ends.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;

/// Bit of a mark's first word, which no header of a row has.
const MARK: u32 = 61;

/// The rows of a chunk that have a bit in the lowest plane alone: two alleles, no missing call.
pub trait ResidentRows: Any + Debug + Send + Sync {}

/// Those of a chunk, compared by where they are.
#[derive(Clone, Debug)]
pub struct ResidentChunk(pub Arc<dyn ResidentRows>);

impl PartialEq for ResidentChunk {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentRow {
    /// Its number in the chunk.
    pub row: u32,
    /// Copies that have a bit.
    pub ones: u32,
    /// Whether the other copies are counted instead.
    pub is_inverted: bool,
}

/// Some rows of a chunk.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "only a GPU has such rows")
)]
pub struct ResidentPart {
    /// All rows of the chunk.
    pub chunk: Arc<dyn ResidentRows>,
    /// Which set of samples of the chunk.
    pub set: u32,
    /// The rows.
    pub rows: Vec<ResidentRow>,
}

/// A chunk of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkKey {
    reader: u32,
    number: u32,
}

/// Stands for a row in a column of planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMark {
    /// The chunk.
    pub chunk: ChunkKey,
    /// As in [`ResidentPart`].
    pub set: u32,
    /// As in [`ResidentRow`].
    pub row: u32,
    /// As in [`ResidentRow`].
    pub ones: u32,
}

impl RowMark {
    /// Number of words.
    pub const WORDS: usize = 3;

    /// Its words.
    pub fn words(self) -> [u64; Self::WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            1 << MARK | u64::from(self.ones),
            pair(self.chunk.number, self.chunk.reader),
            pair(self.row, self.set),
        ]
    }

    /// The mark of these words; `None` if they are the planes of a row.
    #[inline]
    pub fn of(words: &[u64]) -> Option<Self> {
        let &[first, chunk, row] = words else {
            return None;
        };
        Self::is_mark(first).then_some(Self {
            chunk: ChunkKey {
                reader: (chunk >> 32) as u32,
                number: chunk as u32,
            },
            set: (row >> 32) as u32,
            row: row as u32,
            ones: first as u32,
        })
    }

    /// Whether a mark begins with this word.
    #[inline]
    pub(super) fn is_mark(word: u64) -> bool {
        word >> MARK == 1
    }
}

/// Chunks whose rows follow each other.
#[derive(Debug, Default)]
struct ReaderChunks {
    chunks: VecDeque<ResidentChunk>,
    /// The number of the first.
    first: u32,
    /// Whether there will be no others.
    has_ended: bool,
}

/// The chunks of a partition that have rows on a device.
#[derive(Debug, Default)]
pub struct ResidentPlanes {
    readers: Mutex<Vec<ReaderChunks>>,
    /// The devices on which rows may stay, as bits.
    devices: u64,
    /// Bytes that they have for the rows of the partition.
    bytes: usize,
}

/// Registers the chunks of one reader, in the order of their rows.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "only a GPU has such rows")
)]
pub struct ResidentReader {
    planes: Arc<ResidentPlanes>,
    reader: u32,
}

impl ResidentReader {
    /// A reader after those of `planes`.
    pub fn new(planes: &Arc<ResidentPlanes>) -> Self {
        let mut readers = planes.readers.lock();
        readers.push(ReaderChunks::default());
        Self {
            planes: Arc::clone(planes),
            // One for each store and task.
            reader: (readers.len() - 1) as u32,
        }
    }

    /// Adds a chunk.
    #[cfg_attr(
        not(feature = "gpu"),
        allow(dead_code, reason = "only a GPU has such rows")
    )]
    pub fn register(&self, rows: &ResidentChunk) -> ChunkKey {
        let mut readers = self.planes.readers.lock();
        let number = match readers.get_mut(self.reader as usize) {
            Some(reader) => {
                reader.chunks.push_back(rows.clone());
                reader.first.wrapping_add(reader.chunks.len() as u32 - 1)
            }
            None => 0,
        };
        ChunkKey {
            reader: self.reader,
            number,
        }
    }
}

impl Drop for ResidentReader {
    fn drop(&mut self) {
        let mut readers = self.planes.readers.lock();
        if let Some(reader) = readers.get_mut(self.reader as usize) {
            reader.has_ended = true;
        }
    }
}

impl ResidentPlanes {
    /// No chunks yet; their rows may stay on these devices, as bits, which have so many bytes for them.
    pub fn new(devices: u64, bytes: usize) -> Self {
        Self {
            readers: Mutex::default(),
            devices,
            bytes,
        }
    }

    /// The devices on which rows may stay, as bits.
    pub fn devices(&self) -> u64 {
        self.devices
    }

    /// Bytes that these have for the rows of the partition.
    #[cfg_attr(
        not(feature = "gpu"),
        allow(dead_code, reason = "only a GPU has such rows")
    )]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A chunk; `None` if it is not here.
    pub fn get(&self, key: ChunkKey) -> Option<Arc<dyn ResidentRows>> {
        let readers = self.readers.lock();
        let reader = readers.get(key.reader as usize)?;
        let at = key.number.checked_sub(reader.first)?;
        Some(Arc::clone(&reader.chunks.get(at as usize)?.0))
    }

    /// Releases chunks once all rows that were emitted have been used: a reader emits further rows of its last chunk alone.
    pub fn release(&self) {
        let mut released = vec![];
        for reader in self.readers.lock().iter_mut() {
            let kept = usize::from(!reader.has_ended);
            while reader.chunks.len() > kept {
                released.extend(reader.chunks.pop_front());
                reader.first += 1;
            }
        }
    }

    /// Releases all chunks.
    pub fn clear(&self) {
        std::mem::take(&mut *self.readers.lock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Rows;

    impl ResidentRows for Rows {}

    fn chunk() -> ResidentChunk {
        ResidentChunk(Arc::new(Rows))
    }

    #[test]
    fn words_are_those_of_marks_alone() {
        let mark = RowMark {
            chunk: ChunkKey {
                reader: 7,
                number: u32::MAX,
            },
            set: 3,
            row: 1 << 31,
            ones: u32::MAX,
        };
        assert_eq!(RowMark::of(&mark.words()), Some(mark));
        for header in [0, 1, u64::MAX >> 3, 1 << 62, 1 << 63, 3 << 62 | 1] {
            assert_eq!(RowMark::of(&[header, 1, 2]), None, "{header:x}");
        }
        assert_eq!(RowMark::of(&mark.words()[..2]), None);
    }

    #[test]
    fn the_last_chunk_of_a_reader_is_kept() {
        let planes = Arc::new(ResidentPlanes::new(5, 0));
        let [first, second] = [ResidentReader::new(&planes), ResidentReader::new(&planes)];
        let chunks = [chunk(), chunk(), chunk()];
        let keys = chunks.each_ref().map(|chunk| second.register(chunk));
        let other = chunk();
        let of_other = first.register(&other);
        let holds = || {
            chunks
                .each_ref()
                .map(|chunk| Arc::strong_count(&chunk.0) > 1)
        };
        for at in [0, 0, 2, 1] {
            let found = planes.get(keys[at]).unwrap();
            assert!(Arc::ptr_eq(&found, &chunks[at].0));
        }
        planes.release();
        assert_eq!(holds(), [false, false, true]);
        assert!(planes.get(keys[1]).is_none());
        assert!(planes.get(keys[2]).is_some() && planes.get(of_other).is_some());
        // Numbers go on after chunks were released.
        let more = chunk();
        let key = second.register(&more);
        assert!(Arc::ptr_eq(&planes.get(key).unwrap(), &more.0));
        drop(second);
        assert_eq!(holds(), [false, false, true]);
        planes.release();
        assert_eq!((holds(), Arc::strong_count(&more.0)), ([false; 3], 1));
        assert!(planes.get(of_other).is_some());
        planes.clear();
        assert!(planes.get(of_other).is_none());
        assert_eq!((Arc::strong_count(&other.0), planes.devices()), (1, 5));
    }
}
