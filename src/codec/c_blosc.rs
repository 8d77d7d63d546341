//! c-blosc itself, for tests and fuzzing, which compare our reader with it.

use std::ffi::{CString, c_int, c_void};

use crate::codec::blosc::HEADER_LEN;

/// Parameters of c-blosc's compression.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub compressor: &'static str,
    pub shuffle: c_int,
    pub level: c_int,
    pub typesize: usize,
    pub blocksize: usize,
}

/// A Blosc container, by c-blosc.
pub(crate) fn c_compress(data: &[u8], form: &Form) -> Vec<u8> {
    let name = CString::new(form.compressor).unwrap();
    let mut out = vec![0u8; data.len() + HEADER_LEN];
    // SAFETY: both buffers are valid for the lengths given, and the name ends in a zero byte.
    #[allow(unsafe_code)]
    let written = unsafe {
        blosc_src::blosc_compress_ctx(
            form.level,
            form.shuffle,
            form.typesize,
            data.len(),
            data.as_ptr().cast::<c_void>(),
            out.as_mut_ptr().cast::<c_void>(),
            out.len(),
            name.as_ptr(),
            form.blocksize,
            1,
        )
    };
    assert!(written > 0, "{form:?}");
    out.truncate(written as usize);
    out
}

/// Decodes exactly `len` bytes with c-blosc. `None` if it returns an error.
pub(crate) fn c_decompress(src: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut nbytes = 0usize;
    let mut out = vec![0x55u8; len];
    // SAFETY: the container is validated to be as long as its header says; `out` is valid for `len` bytes.
    #[allow(unsafe_code)]
    let written = unsafe {
        let cbuffer = src.as_ptr().cast::<c_void>();
        if blosc_src::blosc_cbuffer_validate(cbuffer, src.len(), &raw mut nbytes) != 0 {
            return None;
        }
        blosc_src::blosc_decompress_ctx(cbuffer, out.as_mut_ptr().cast::<c_void>(), len, 1)
    };
    (written == len as c_int && nbytes == len).then_some(out)
}
