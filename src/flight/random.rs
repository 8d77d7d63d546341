//! Random bytes from the operating system, for tokens and handles.

use tonic::Status;

/// `N` random bytes.
///
/// # Errors
/// INTERNAL, if the operating system returns an error.
pub fn bytes<const N: usize>() -> Result<[u8; N], Status> {
    let mut bytes = [0u8; N];
    getrandom::getrandom(&mut bytes)
        .map_err(|error| Status::internal(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of exactly `2 N` hexadecimal digits.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0u8; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trip() {
        let random = bytes::<16>().unwrap();
        assert_eq!(from_hex::<16>(&hex(&random)), Some(random));
        assert_ne!(random, bytes::<16>().unwrap());
        for bad in ["", "0", "0g", "000", "+1", "é"] {
            assert_eq!(from_hex::<1>(bad), None, "{bad}");
        }
    }
}
