//! [`shown`]: how messages name workers.

use url::Url;

/// A worker for messages: `HOST:PORT`.
pub fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    }
}
