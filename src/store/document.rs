//! [`DocumentId`]: how a metadata document of a store is recognised, so that a store that was deleted or replaced is noticed.
//!
//! Made when a document is read (`source`), kept by `discover` and compared by `unchanged`.

use std::time::{SystemTime, UNIX_EPOCH};

/// The state of a metadata document when it was read: its content, and the entity tag and the time of the last change where the
/// file system or server tells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentId {
    digest: blake3::Hash,
    e_tag: Option<String>,
    modified: Option<SystemTime>,
}

impl DocumentId {
    /// The state of a document with this content. A time of 1970 stands for none.
    pub(super) fn new(bytes: &[u8], e_tag: Option<String>, modified: Option<SystemTime>) -> Self {
        Self {
            digest: blake3::hash(bytes),
            e_tag,
            modified: modified.filter(|time| *time > UNIX_EPOCH),
        }
    }

    /// The digest of its content.
    pub(super) fn content(&self) -> &blake3::Hash {
        &self.digest
    }

    /// What is different in a later state; `None` if nothing is, as far as both are known.
    pub(super) fn difference(&self, later: &Self) -> Option<&'static str> {
        fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            matches!((one, other), (Some(one), Some(other)) if one != other)
        }
        if self.digest != later.digest {
            Some("its content has changed")
        } else if differ(self.e_tag.as_ref(), later.e_tag.as_ref()) {
            Some("its ETag has changed")
        } else if differ(self.modified.as_ref(), later.modified.as_ref()) {
            Some("the time of its last change is another")
        } else {
            None
        }
    }

    /// Whether it was written after a time; `None` if the time of its last change is not known.
    pub(super) fn is_after(&self, time: SystemTime) -> Option<bool> {
        self.modified.map(|modified| modified > time)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn whatever_is_known_is_compared() {
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        let tag = |tag: &str| Some(tag.to_owned());
        let full = DocumentId::new(b"{}", tag("1"), at(5));
        let same = |later| full.difference(&later);
        assert_eq!(same(full.clone()), None);
        assert_eq!(same(DocumentId::new(b"{}", None, at(0))), None);
        assert_eq!(same(DocumentId::new(b"{}", None, None)), None);
        assert!(same(DocumentId::new(b"[]", tag("1"), at(5))).is_some());
        assert!(same(DocumentId::new(b"{}", tag("2"), at(5))).is_some());
        assert!(same(DocumentId::new(b"{}", None, at(6))).is_some());
    }
}
