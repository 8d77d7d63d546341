//! Writing a store: the metadata of new arrays, and the places that chunks and documents are written to.
//!
//! `codec` encodes chunks as [`NewArray`] says; `scan` decides what is written. A store is written below a [`Target`], which makes it
//! visible as a whole at the end, or removes it. Invariant: what has not been published cannot be opened as a store.
//!
//! * `compression`: the choice of a codec. `new_array`: metadata. `documents`: the group's, and consolidated metadata.
//! * `target`: folders, archives and object stores behind one type; `folder`, `archive`, `objects`. `temporaries`: what a process that
//!   is ended by a signal removes.

mod archive;
mod blocking;
mod compression;
mod documents;
mod folder;
mod mark;
mod new_array;
mod objects;
mod place;
mod target;
mod temporaries;
mod write_error;

pub use compression::Compression;
pub use documents::Documents;
pub use new_array::NewArray;
pub use place::Place;
pub use target::Target;
pub use temporaries::remove_temporaries;
