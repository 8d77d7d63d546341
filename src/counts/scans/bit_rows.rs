//! [`BitRows`]: rows of bits, in blocks, so that they grow without being copied.

/// Words of a block, unless a row is longer.
const BLOCK_WORDS: usize = 1 << 13;

/// Rows of `width` words each.
#[derive(Clone, Debug)]
pub(super) struct BitRows {
    width: usize,
    /// Rows of a block.
    block_rows: usize,
    /// All but the last are full.
    blocks: Vec<Vec<u64>>,
}

impl BitRows {
    /// No rows, of `width` words each, and at least one.
    pub(super) fn new(width: usize) -> Self {
        let width = width.max(1);
        Self {
            width,
            block_rows: (BLOCK_WORDS / width).max(1),
            blocks: vec![],
        }
    }

    /// Adds a row: `words`, and zeros after them.
    pub(super) fn push(&mut self, words: &[u64]) {
        let size = self.block_rows * self.width;
        if self.blocks.last().is_none_or(|last| last.len() >= size) {
            self.blocks.push(Vec::with_capacity(size));
        }
        if let Some(last) = self.blocks.last_mut() {
            let end = last.len() + self.width;
            last.extend_from_slice(words.get(..self.width).unwrap_or(words));
            last.resize(end, 0);
        }
    }

    /// Row `at`; empty if there is no such row.
    pub(super) fn row(&self, at: usize) -> &[u64] {
        let from = at % self.block_rows * self.width;
        self.blocks
            .get(at / self.block_rows)
            .and_then(|block| block.get(from..from + self.width))
            .unwrap_or_default()
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let words: usize = self.blocks.iter().map(Vec::capacity).sum();
        words * size_of::<u64>() + self.blocks.capacity() * size_of::<Vec<u64>>()
    }
}
