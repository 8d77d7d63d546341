//! [`Store::content_key`]: tells whether two processes have opened the same store.
//!
//! Of an archive it covers the name, the size and the checksum of every object; of a folder or an object store the metadata documents, whose
//! chunks may differ all the same.

use super::source::StoreSource;
use super::vcz_store::Store;

impl Store {
    /// Adds what identifies this store's content to `hasher`, whatever its location, entity tags or times.
    pub fn content_key(&self, hasher: &mut blake3::Hasher) {
        if let StoreSource::Zip(zip) = &self.source {
            for (name, size, crc) in zip.contents() {
                text(hasher, name);
                hasher.update(&size.to_le_bytes());
                hasher.update(&crc.to_le_bytes());
            }
            return;
        }
        if let Some((name, document)) = &self.contents.root {
            text(hasher, name.as_bytes());
            hasher.update(document.content().as_bytes());
        }
        for (name, document) in &self.contents.documents {
            text(hasher, name.as_bytes());
            hasher.update(document.content().as_bytes());
        }
    }
}

fn text(hasher: &mut blake3::Hasher, text: &[u8]) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text);
}
