//! A store as a storage of the crate zarrs, for reading, so that its users read VCZ from zip archives, HTTP and object stores with
//! the readers of this crate.
//!
//! Above `source`. Keys are those of the stored objects: arrays that are made while a store is read, and the adapted names of other
//! writers' stores, are not seen through it. Objects of more than 8 GiB are refused; what zarrs does with the bytes is not guarded.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use object_store::GetRange;
use zarrs::storage::byte_range::{ByteRange, ByteRangeIterator};
use zarrs::storage::{
    AsyncMaybeBytesIterator, AsyncReadableStorageTraits, Bytes, MaybeBytes, StorageError, StoreKey,
};

use super::read_error::ReadError;
use super::vcz_store::Store;

/// Largest object, or range of one, that is read; as for the chunks of [`Store::chunk`].
const MAX_OBJECT: u64 = 1 << 33;

/// Reads the store's objects by their keys, such as `call_genotype/.zarray`; an absent object is `None`.
///
/// Listing is not offered, because locations that are served by HTTP cannot be listed: open arrays by their names.
#[async_trait]
impl AsyncReadableStorageTraits for Store {
    async fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        let got = self.source.get(key.as_str(), None, MAX_OBJECT).await;
        got.map_err(|error| self.storage_error(key, error))
    }

    async fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        byte_ranges: ByteRangeIterator<'a>,
    ) -> Result<AsyncMaybeBytesIterator<'a>, StorageError> {
        let mut parts = Vec::new();
        for range in byte_ranges {
            match self.object_range(key, range).await? {
                Some(bytes) => parts.push(Ok(bytes)),
                None => return Ok(None),
            }
        }
        Ok(Some(stream::iter(parts).boxed()))
    }

    async fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        // No reader of ours gives the size of an object without its bytes.
        Ok(self.get(key).await?.map(|bytes| bytes.len() as u64))
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

impl Store {
    async fn object_range(
        &self,
        key: &StoreKey,
        range: ByteRange,
    ) -> Result<MaybeBytes, StorageError> {
        let wanted = match range {
            ByteRange::FromStart(0, None) => return self.get(key).await,
            // No reader takes an empty range, which is inside any object.
            ByteRange::FromStart(_, Some(0)) | ByteRange::Suffix(0) => {
                return Ok(self.get(key).await?.map(|_| Bytes::new()));
            }
            ByteRange::FromStart(start, None) => GetRange::Offset(start),
            ByteRange::FromStart(start, Some(len)) => match start.checked_add(len) {
                Some(end) => GetRange::Bounded(start..end),
                None => return Err(self.outside(key, range)),
            },
            ByteRange::Suffix(len) => GetRange::Suffix(len),
        };
        let source = &self.source;
        let got = source.get(key.as_str(), Some(wanted), MAX_OBJECT).await;
        let got = got.map_err(|error| self.storage_error(key, error))?;
        // Our readers clip ranges at the end of an object, zarrs expects all of their bytes.
        match (range, &got) {
            (ByteRange::FromStart(_, Some(len)) | ByteRange::Suffix(len), Some(bytes))
                if bytes.len() as u64 != len =>
            {
                Err(self.outside(key, range))
            }
            _ => Ok(got),
        }
    }

    fn outside(&self, key: &StoreKey, range: ByteRange) -> StorageError {
        let store = &self.location;
        StorageError::Other(format!(
            "store '{store}': '{key}' is cut short: it ends before the range {range:?}"
        ))
    }

    fn storage_error(&self, key: &StoreKey, error: ReadError) -> StorageError {
        let store = &self.location;
        match error {
            ReadError::Io(source) => StorageError::IOError(Arc::new(io::Error::other(format!(
                "store '{store}': cannot read '{key}': {source}"
            )))),
            ReadError::Corrupt(reason) => {
                StorageError::Other(format!("store '{store}': '{key}': {reason}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt};
    use zarrs::array::{Array, ArraySubset};

    use super::*;

    fn fixture(name: &str) -> PathBuf {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let file = format!("tests/fixtures/{name}");
        let path = root.ancestors().map(|folder| folder.join(&file));
        path.into_iter().find(|path| path.is_file()).unwrap()
    }

    /// The fixture as a local archive, and as one of an object store.
    async fn opened(name: &str) -> [Arc<Store>; 2] {
        let path = fixture(name);
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let bytes = std::fs::read(&path).unwrap();
        objects
            .put(&"a.vcz.zip".into(), bytes.into())
            .await
            .unwrap();
        let archive = Arc::clone(&objects);
        let local = Store::open(archive, "".into(), name.to_owned(), Some(path)).await;
        let remote = Store::open(objects, "a.vcz.zip".into(), name.to_owned(), None).await;
        [Arc::new(local.unwrap()), Arc::new(remote.unwrap())]
    }

    #[tokio::test]
    async fn zarrs_reads_arrays() {
        let mut all = Vec::new();
        // Two formats with the same values.
        for name in ["chunks7.vcz.zip", "chunks7.v3.vcz.zip"] {
            for store in opened(name).await {
                let meta = store.require_array("variant_position").unwrap();
                let key = StoreKey::new(format!("{}/{}", meta.name, meta.chunk_key(&[1]))).unwrap();
                let raw = store.get(&key).await.unwrap();
                assert_eq!(raw, store.chunk(meta, &[1]).await.unwrap());
                let positions = elements::<i32>(&store, "variant_position").await;
                assert!(positions.is_sorted() && positions.len() as u64 == meta.shape[0]);
                let genotypes = elements::<i8>(&store, "call_genotype").await;
                let meta = store.require_array("call_genotype").unwrap();
                assert_eq!(Some(genotypes.len() as u64), meta.n_elements());
                let samples = elements::<String>(&store, "sample_id").await;
                assert_eq!(samples.len(), 33);
                all.push((positions, genotypes, samples));
            }
        }
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|values| *values == all[0]));
    }

    /// The values of an array, by zarrs.
    async fn elements<T>(store: &Arc<Store>, name: &str) -> Vec<T>
    where
        T: zarrs::array::ElementOwned + Send + Sync,
    {
        let array = Array::async_open(Arc::clone(store), &format!("/{name}")).await;
        let array = array.unwrap();
        let whole = ArraySubset::new_with_shape(array.shape().to_vec());
        array.async_retrieve_array_subset(&whole).await.unwrap()
    }

    #[tokio::test]
    async fn ranges() {
        for store in opened("chunks7.vcz.zip").await {
            let key = StoreKey::new("variant_position/.zarray").unwrap();
            let whole = store.get(&key).await.unwrap().unwrap();
            let len = whole.len() as u64;
            assert_eq!(store.size_key(&key).await.unwrap(), Some(len));
            assert!(store.supports_get_partial());
            for (range, expected) in [
                (ByteRange::FromStart(2, Some(5)), &whole[2..7]),
                (
                    ByteRange::FromStart(len - 1, Some(1)),
                    &whole[whole.len() - 1..],
                ),
                (ByteRange::FromStart(9, None), &whole[9..]),
                (ByteRange::FromStart(3, Some(0)), b""),
                (ByteRange::Suffix(4), &whole[whole.len() - 4..]),
                (ByteRange::Suffix(0), b""),
            ] {
                let part = store.get_partial(&key, range).await.unwrap().unwrap();
                assert_eq!(part, expected, "{range:?}");
            }
            for range in [
                ByteRange::FromStart(0, Some(len + 1)),
                ByteRange::FromStart(len + 5, Some(1)),
                ByteRange::FromStart(u64::MAX, Some(2)),
                ByteRange::Suffix(len + 1),
            ] {
                let error = store
                    .get_partial(&key, range)
                    .await
                    .unwrap_err()
                    .to_string();
                assert!(
                    error.contains("chunks7") && error.contains(".zarray"),
                    "{error}"
                );
            }
            let absent = StoreKey::new("variant_position/99").unwrap();
            assert!(store.get(&absent).await.unwrap().is_none());
            let range = ByteRange::FromStart(0, Some(1));
            assert!(store.get_partial(&absent, range).await.unwrap().is_none());
            assert!(store.size_key(&absent).await.unwrap().is_none());
        }
    }
}
