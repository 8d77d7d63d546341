//! Errors: [`ServeError`] for a server that does not start, and the gRPC status of a query's error.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use tonic::{Code, Status};

use super::functions;
use crate::error::VczError;
use crate::session::{is_about_a_regex, message_without_files};

/// Longest message of a status, in bytes: it is sent in an HTTP header, whose size clients limit.
const MAX_MESSAGE: usize = 2000;

/// The end of a message that was cut.
pub const CUT: &str = "…";

/// Why a server did not start or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {source}{}", hint(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read the {what} '{}': {source}", path.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The certificate or its key is unusable.
    #[error("certificate '{}' with key '{}': {reason}", cert.display(), key.display())]
    Certificate {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        reason: String,
    },
    /// A line of the file of users is malformed. The message holds no secrets.
    #[error("'{}', line {line}: {reason}", path.display())]
    AuthFile {
        /// The file.
        path: PathBuf,
        /// 1-based line number.
        line: usize,
        /// What was expected.
        reason: String,
    },
    /// The configuration contradicts itself or is not safe.
    #[error("{0}")]
    Configuration(String),
    /// The tables could not be published.
    #[error("cannot publish the tables: {0}")]
    Tables(#[from] DataFusionError),
    /// The server failed while running.
    #[error("the server stopped: {0}")]
    Stopped(String),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program listens there, choose another with --bind or --metrics-bind"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege",
        _ => "",
    }
}

/// The status that reports `error` to a client.
pub fn status(error: &DataFusionError) -> Status {
    let root = error.find_root();
    let code = match root {
        _ if is_about_a_regex(error) => Code::InvalidArgument,
        DataFusionError::Plan(_)
        | DataFusionError::SQL(..)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_)
        | DataFusionError::Execution(_) => Code::InvalidArgument,
        DataFusionError::NotImplemented(_) => Code::Unimplemented,
        DataFusionError::ResourcesExhausted(_) => Code::ResourceExhausted,
        DataFusionError::ArrowError(error, _) => match **error {
            ArrowError::MemoryError(_) => Code::ResourceExhausted,
            ArrowError::NotYetImplemented(_) => Code::Unimplemented,
            ArrowError::IoError(..) => Code::Unavailable,
            _ => Code::InvalidArgument,
        },
        DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => Code::Unavailable,
        DataFusionError::External(error) => match error.downcast_ref::<VczError>() {
            Some(VczError::Chunk { .. } | VczError::Metadata { .. }) => Code::DataLoss,
            Some(VczError::Io { .. }) => Code::Unavailable,
            Some(_) => Code::InvalidArgument,
            None => Code::Internal,
        },
        _ => Code::Internal,
    };
    let message = functions::explained(message_without_files(error));
    Status::new(code, shortened(message))
}

/// The status of a query that took longer than `limit`.
pub fn too_late(limit: Duration) -> Status {
    Status::deadline_exceeded(format!(
        "the query took longer than {limit:?}, the time limit of this server"
    ))
}

/// The status that reports an Arrow error to a client.
pub fn arrow_status(error: ArrowError) -> Status {
    status(&DataFusionError::from(error))
}

/// `message`, cut to what fits a header.
pub fn shortened(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        let end = (0..=MAX_MESSAGE)
            .rev()
            .find(|&at| message.is_char_boundary(at))
            .unwrap_or(0);
        message.truncate(end);
        message.push_str(CUT);
    }
    message
}

#[cfg(test)]
mod tests {
    use datafusion::common::{plan_datafusion_err, resources_datafusion_err};

    use super::*;

    #[test]
    fn codes() {
        let code = |error: DataFusionError| status(&error).code();
        assert_eq!(code(plan_datafusion_err!("x")), Code::InvalidArgument);
        assert_eq!(
            code(resources_datafusion_err!("x").context("while sorting")),
            Code::ResourceExhausted
        );
        let chunk = VczError::Chunk {
            store: "s".to_string(),
            array: "a".to_string(),
            chunk: "0.0".to_string(),
            reason: "broken".to_string(),
        };
        let status = status(&DataFusionError::External(Box::new(chunk)));
        assert_eq!(status.code(), Code::DataLoss);
        assert_eq!(status.message(), "store 's': array 'a', chunk 0.0: broken");
    }

    #[test]
    fn long_messages_are_cut() {
        let cut = shortened("é".repeat(5000));
        assert!(cut.len() <= MAX_MESSAGE + '…'.len_utf8());
        assert_eq!(shortened("short".to_string()), "short");
    }
}
