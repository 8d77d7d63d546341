//! Locations without credentials, for messages, logs and plans.

/// The location without what may be a credential: the user information of a URL, unless it may be a container
/// (`abfss://container@account`), and its query, which may have a signature. Local paths are returned unchanged.
pub fn shown(location: &str) -> String {
    let Some((scheme, rest)) = location.split_once("://") else {
        return location.to_string();
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) if !query.is_empty() => (place, "?…"),
        Some((place, _)) => (place, "?"),
        None => (rest, ""),
    };
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let authority = match authority.rsplit_once('@') {
        // In abfss://container@account it is not a credential.
        Some((user, _)) if !user.contains(':') && !scheme.starts_with("http") => authority,
        Some((_, host)) => host,
        None => authority,
    };
    format!("{scheme}://{authority}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_left_out() {
        let cases = [
            ("/data/a?b@c:d", "/data/a?b@c:d"),
            ("s3://bucket/x.vcz", "s3://bucket/x.vcz"),
            ("https://host/x.vcz.zip?sig=a/b", "https://host/x.vcz.zip?…"),
            ("https://me:secret@host:80/x@y", "https://host:80/x@y"),
            ("https://token@host", "https://host"),
            ("abfss://box@account.host/x", "abfss://box@account.host/x"),
        ];
        for (location, expected) in cases {
            assert_eq!(shown(location), expected);
        }
    }
}
