//! Rows of bit-planes that stay on the device that made them: [`ResidentRows`], the rows of a chunk, which `gpu` implements; [`RowMark`], what
//! stands for such a row in a column of planes; [`ResidentPlanes`], the chunks of a partition.
//!
//! The scan registers the chunks that it has rows of, and emits marks. The operator above it looks them up, lets the device count the rows where
//! they are, and releases chunks. Invariants: a mark is only valid in the execution that made it, so a scan emits marks only where that
//! operator asks for them; a chunk lives until the rows after it have been looked up, or until the partition ends.

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
    lane: u32,
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
            pair(self.chunk.number, self.chunk.lane),
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
                lane: (chunk >> 32) as u32,
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
struct LaneChunks {
    chunks: VecDeque<ResidentChunk>,
    /// The number of the first.
    first: u32,
    /// The last one that was looked up.
    seen: u32,
}

/// The chunks of a partition that have rows on a device.
#[derive(Debug, Default)]
pub struct ResidentPlanes(Mutex<Vec<LaneChunks>>);

/// Registers the chunks of one reader, in the order of their rows.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "only a GPU has such rows")
)]
pub struct ResidentLane {
    planes: Arc<ResidentPlanes>,
    lane: u32,
}

impl ResidentLane {
    /// A lane after those of `planes`.
    pub fn new(planes: &Arc<ResidentPlanes>) -> Self {
        let mut lanes = planes.0.lock();
        lanes.push(LaneChunks::default());
        Self {
            planes: Arc::clone(planes),
            // One for each store and task.
            lane: (lanes.len() - 1) as u32,
        }
    }

    /// Adds a chunk.
    #[cfg_attr(
        not(feature = "gpu"),
        allow(dead_code, reason = "only a GPU has such rows")
    )]
    pub fn register(&self, rows: &ResidentChunk) -> ChunkKey {
        let mut lanes = self.planes.0.lock();
        let number = match lanes.get_mut(self.lane as usize) {
            Some(lane) => {
                lane.chunks.push_back(rows.clone());
                lane.first.wrapping_add(lane.chunks.len() as u32 - 1)
            }
            None => 0,
        };
        ChunkKey {
            lane: self.lane,
            number,
        }
    }
}

impl ResidentPlanes {
    /// A chunk; `None` if it is not here.
    pub fn get(&self, key: ChunkKey) -> Option<Arc<dyn ResidentRows>> {
        let mut lanes = self.0.lock();
        let lane = lanes.get_mut(key.lane as usize)?;
        let at = key.number.checked_sub(lane.first)?;
        let chunk = lane.chunks.get(at as usize)?;
        lane.seen = lane.seen.max(key.number);
        Some(Arc::clone(&chunk.0))
    }

    /// Releases the chunks before those that were looked up last.
    pub fn release(&self) {
        let mut released = vec![];
        for lane in self.0.lock().iter_mut() {
            while lane.first < lane.seen {
                released.extend(lane.chunks.pop_front());
                lane.first += 1;
            }
        }
    }

    /// Releases all chunks.
    pub fn clear(&self) {
        std::mem::take(&mut *self.0.lock());
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
                lane: 7,
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
    fn chunks_live_until_later_ones_are_looked_up() {
        let planes = Arc::new(ResidentPlanes::default());
        let lanes = [ResidentLane::new(&planes), ResidentLane::new(&planes)];
        let chunks = [chunk(), chunk(), chunk()];
        let keys = chunks.each_ref().map(|chunk| lanes[1].register(chunk));
        let other = chunk();
        let of_other = lanes[0].register(&other);
        let holds = || {
            chunks
                .each_ref()
                .map(|chunk| Arc::strong_count(&chunk.0) > 1)
        };
        planes.release();
        assert_eq!(holds(), [true; 3]);
        for at in [0, 0, 2] {
            let found = planes.get(keys[at]).unwrap();
            assert!(Arc::ptr_eq(&found, &chunks[at].0));
            drop(found);
        }
        planes.release();
        assert_eq!(holds(), [false, false, true]);
        assert!(planes.get(keys[1]).is_none());
        assert!(planes.get(keys[2]).is_some() && planes.get(of_other).is_some());
        planes.clear();
        assert_eq!(holds(), [false; 3]);
        assert!(planes.get(of_other).is_none());
        assert_eq!(Arc::strong_count(&other.0), 1);
    }
}
