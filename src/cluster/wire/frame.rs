//! The beginning of this crate's bytes in a plan: a mark and the version of the form, so that another build is refused by name.

use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use prost::Message;

/// The version of the form of plans: coordinator and workers must be of the same build.
pub const WIRE_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");

/// What the bytes of this crate begin with.
const MAGIC: &[u8] = b"vcz ";

/// `message` as bytes, with the version.
pub fn framed(message: &impl Message, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(WIRE_VERSION.as_bytes());
    bytes.push(b'\n');
    bytes.extend_from_slice(&message.encode_to_vec());
}

/// The message in `bytes`.
///
/// # Errors
/// If they are not of this crate, of another version, or cut.
pub fn unframed<M: Message + Default>(bytes: &[u8]) -> Result<M> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(plan_datafusion_err!(
            "a part of a distributed plan is not of datafusion-vcz"
        ));
    };
    let mut parts = rest.splitn(2, |byte| *byte == b'\n');
    let (version, message) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    if version != WIRE_VERSION.as_bytes() {
        return Err(plan_datafusion_err!(
            "a plan of version {} of datafusion-vcz came to a worker of version {WIRE_VERSION}: coordinator and workers must be of the \
             same build",
            String::from_utf8_lossy(version)
        ));
    }
    M::decode(message).map_err(broken)
}

/// An error about a message that cannot be understood.
pub fn broken(error: impl std::fmt::Display) -> DataFusionError {
    plan_datafusion_err!("a part of a distributed plan cannot be understood: {error}")
}

/// The value of a field that every message has.
pub fn required<T>(value: Option<T>, what: &str) -> Result<T> {
    value.ok_or_else(|| broken(format!("it has no {what}")))
}
