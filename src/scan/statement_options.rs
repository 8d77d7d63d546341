//! [`split_options`]: the options of a statement, `OPTIONS ('vcz.codec' 'zstd', 'aws.region' 'eu-west-1')`, as those of ours and those of
//! object stores.

use std::collections::HashMap;

use datafusion::common::Result;

use super::remote::options::RemoteOptions;

/// The prefix of our options.
pub const PREFIX: &str = "vcz.";
/// What the SQL planner puts before keys without a prefix.
const NO_PREFIX: &str = "format.";

/// The options of object stores, and the names of the others without their prefix, sorted, with their values.
///
/// # Errors
/// If an option of object stores is not known, or set twice.
pub fn split_options(
    options: &HashMap<String, String>,
) -> Result<(RemoteOptions, Vec<(&str, &str)>)> {
    let mut keys: Vec<&String> = options.keys().collect();
    keys.sort();
    let (mut remote, mut ours) = (RemoteOptions::default(), vec![]);
    for key in keys {
        let value = options[key].as_str();
        if RemoteOptions::has_prefix(key) {
            remote.set(key, value)?;
            continue;
        }
        let name = key
            .strip_prefix(PREFIX)
            .or_else(|| key.strip_prefix(NO_PREFIX))
            .unwrap_or(key);
        ours.push((name, value));
    }
    Ok((remote, ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_taken_off() {
        let options = ["vcz.codec", "format.zip", "mode", "execution.x"];
        let options = options.map(|key| (key.to_string(), key.to_uppercase()));
        let options = HashMap::from(options);
        let (remote, ours) = split_options(&options).unwrap();
        assert!(remote.is_empty());
        let expected = [
            ("execution.x", "EXECUTION.X"),
            ("zip", "FORMAT.ZIP"),
            ("mode", "MODE"),
            ("codec", "VCZ.CODEC"),
        ];
        assert_eq!(ours, expected);
    }
}
