//! `reshape` and `squeeze` of Zarr v3, which zarrs writes: the elements stay where they are, in an array of another shape.

use serde_json::{Map, Value};

use super::super::CodecError;

/// Most dimensions of an array.
const MAX_RANK: usize = 32;

/// The shape of the array that the codec called `name` makes of one of `shape`; `None` if it is another codec.
///
/// # Errors
/// If the shapes have other numbers of elements.
pub(super) fn reshaped(
    name: &str,
    configuration: &Map<String, Value>,
    shape: &[usize],
) -> Result<Option<Vec<usize>>, CodecError> {
    match name {
        "squeeze" => Ok(Some(
            shape
                .iter()
                .copied()
                .filter(|&length| length != 1)
                .collect(),
        )),
        "reshape" => reshape(configuration, shape).map(Some),
        _ => Ok(None),
    }
}

fn reshape(configuration: &Map<String, Value>, shape: &[usize]) -> Result<Vec<usize>, CodecError> {
    let wanted = configuration.get("shape").unwrap_or(&Value::Null);
    let wrong = |reason: &str| {
        CodecError::from(format!(
            "reshape: 'shape' is {wanted}, of chunks of shape {shape:?}; {reason}"
        ))
    };
    let lengths = wanted
        .as_array()
        .filter(|lengths| lengths.len() <= MAX_RANK)
        .ok_or_else(|| wrong("expected a list of at most 32 lengths"))?;
    let elements = product(shape.iter().copied()).ok_or_else(|| wrong("too many elements"))?;
    let (mut encoded, mut open) = (Vec::with_capacity(lengths.len()), None);
    for length in lengths {
        let length = match length {
            Value::Array(dimensions) => {
                let lengths = dimensions.iter().map(|dimension| {
                    let dimension = usize::try_from(dimension.as_u64()?).ok()?;
                    shape.get(dimension).copied()
                });
                let lengths: Option<Vec<usize>> = lengths.collect();
                lengths.and_then(|lengths| product(lengths.into_iter()))
            }
            Value::Number(number) if number.as_i64() == Some(-1) && open.is_none() => {
                open = Some(encoded.len());
                Some(1)
            }
            Value::Number(number) => number
                .as_u64()
                .filter(|&length| length > 0)
                .and_then(|length| usize::try_from(length).ok()),
            _ => None,
        };
        encoded.push(length.ok_or_else(|| {
            wrong("expected lengths, lists of dimensions of the chunk, and at most one -1")
        })?);
    }
    let known = product(encoded.iter().copied());
    if let (Some(open), Some(known @ 1..)) = (open, known)
        && elements.is_multiple_of(known)
    {
        encoded[open] = elements / known;
    }
    match product(encoded.iter().copied()) == Some(elements) {
        true => Ok(encoded),
        false => Err(wrong("expected as many elements")),
    }
}

fn product(mut lengths: impl Iterator<Item = usize>) -> Option<usize> {
    lengths.try_fold(1usize, usize::checked_mul)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(shape: Value, chunk: &[usize]) -> Result<Vec<usize>, CodecError> {
        let configuration = Map::from_iter([("shape".to_owned(), shape)]);
        Ok(reshaped("reshape", &configuration, chunk)?.unwrap())
    }

    #[test]
    fn shapes() {
        assert_eq!(of(json!([[0, 1], -1]), &[4, 5, 6, 7]).unwrap(), [20, 42]);
        assert_eq!(of(json!([10, [2], 2]), &[4, 5, 6]).unwrap(), [10, 6, 2]);
        assert_eq!(of(json!([]), &[1, 1]).unwrap(), [] as [usize; 0]);
        assert_eq!(
            reshaped("squeeze", &Map::new(), &[1, 5, 1, 2]).unwrap(),
            Some(vec![5, 2])
        );
        assert_eq!(reshaped("delta", &Map::new(), &[1]).unwrap(), None);
        for wrong in [
            json!(null),
            json!([3, 7]),
            json!([-1, -1]),
            json!([0, -1]),
            json!([[5]]),
            json!([-2]),
            json!([u64::MAX, 2]),
            json!([[0, 0, 0, 0], -1]),
            json!(vec![1; 33]),
            json!(["x"]),
        ] {
            assert!(of(wrong.clone(), &[4, 5]).is_err(), "{wrong}");
        }
        assert!(of(json!([[0, 1]]), &[usize::MAX, 2]).is_err());
    }
}
