//! [`WrittenNames`]: the contigs and filters of the store that is written, by name.

use std::collections::HashMap;

/// The indices of names.
#[derive(Debug, Default)]
pub struct NameIndex {
    indices: HashMap<String, usize>,
}

impl NameIndex {
    /// The indices of `names` in their order.
    pub fn new(names: &[String]) -> Self {
        let indices = names.iter().enumerate();
        Self {
            indices: indices.map(|(at, name)| (name.clone(), at)).collect(),
        }
    }

    /// The index of `name`.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.indices.get(name).copied()
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.indices.len()
    }
}

/// What the names in columns refer to.
#[derive(Debug, Default)]
pub struct WrittenNames {
    /// `contig_id`
    pub contigs: NameIndex,
    /// `filter_id`
    pub filters: NameIndex,
}
