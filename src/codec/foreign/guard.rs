//! Panics of other crates as errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::CodecError;

/// Runs a decoder of another crate. A panic in it, which damaged input may cause, is an error.
pub(super) fn guarded<T>(
    name: &str,
    decode: impl FnOnce() -> Result<T, CodecError>,
) -> Result<T, CodecError> {
    // What the closure has changed is dropped with the error.
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(format!("{name}: the decoder stopped unexpectedly; the chunk is damaged").into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_errors() {
        assert_eq!(guarded("a", || Ok(1)), Ok(1));
        let result = guarded::<()>("a", || panic!("of a test"));
        assert!(result.unwrap_err().contains("a: the decoder stopped"));
    }
}
