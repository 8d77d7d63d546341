//! Stores of other writers: arrays derived from others, and metadata they lack.
//!
//! `scan` decodes the parts and provides the function that makes chunks ([`Store::with_made`]); from then on the array is read as any
//! other.

use std::sync::Arc;

use super::array::ArrayMeta;
use super::element::ElementType;
use super::vcz_store::{MadeArray, Store};
use crate::error::{Result, VczError};

impl Store {
    /// Whether the group says that it is VCF Zarr; otherwise it is read by the names of its arrays, and every NaN is a missing value.
    pub fn follows_vcf_zarr(&self) -> bool {
        self.other_writer.is_none()
    }

    /// An array of a store of another writer, by its path, that is part of one of VCF Zarr's: `variants/CHROM`, `variants/REF`,
    /// `variants/ALT`.
    pub fn part(&self, path: &str) -> Option<&Arc<ArrayMeta>> {
        self.other_writer.as_ref()?.parts.get(path)
    }

    /// The contig of all variants, if the store does not say on which contigs they are.
    pub fn with_contig(mut self, contig: Option<String>) -> Self {
        self.contig = contig;
        self
    }

    /// The contig that was named in [`Store::with_contig`].
    pub fn contig(&self) -> Option<&str> {
        self.contig.as_deref()
    }

    /// How many alleles genotypes may have in a store of another writer that does not have the alleles; `None` stands for 2.
    pub fn with_alleles(mut self, alleles: Option<usize>) -> Self {
        self.alleles = alleles;
        self
    }

    /// How many alleles genotypes may have; `None` where the store has alleles, or must have them.
    pub fn assumed_alleles(&self) -> Option<usize> {
        let is_assumed = !self.follows_vcf_zarr() && self.array("variant_allele").is_none();
        is_assumed.then_some(self.alleles.unwrap_or(2))
    }

    /// Where an array is, below the root.
    pub(super) fn folder<'a>(&'a self, array: &'a ArrayMeta) -> &'a str {
        let other = self.other_writer.as_ref();
        other
            .and_then(|other| other.folders.get(&array.name))
            .unwrap_or(&array.name)
    }

    /// Whether the chunks of an array are derived from others.
    pub(super) fn is_made(&self, array: &ArrayMeta) -> bool {
        self.made.contains_key(&array.name)
    }

    /// Adds an array whose chunks are derived from others, uncompressed: little-endian numbers, or text as `vlen-utf8`.
    ///
    /// # Errors
    /// [`VczError::Metadata`] if an array cannot have this shape.
    pub fn with_made(
        mut self,
        name: &str,
        shape: Vec<u64>,
        chunks: Vec<u64>,
        element: ElementType,
        made: Arc<dyn MadeArray>,
    ) -> Result<Self> {
        let array = ArrayMeta::made(name, self.format(), shape, chunks, element);
        let array = array.map_err(|reason| VczError::Metadata {
            store: self.location.clone(),
            what: format!("array '{name}'"),
            reason: reason.into(),
        })?;
        let arrays = &mut self.contents.arrays;
        arrays.insert(name.to_owned(), Arc::new(array));
        self.made.insert(name.to_owned(), made);
        Ok(self)
    }
}
