//! Called copies n and derived count d = n − a_0 of a site, checked against the population's number of copies N; and the size m of a
//! projection.

use datafusion::common::{Result, exec_datafusion_err, exec_err};

use crate::functions::numeric::site::{allele_number, derived_count};

/// n and d of a site; an error if n is more than the population's copies.
#[inline(always)]
fn measure(function: &str, copies: Option<u64>, counts: &[i32]) -> Result<(u64, u64)> {
    // Counts are not negative: `CountsView` has checked that.
    let (n, d) = (allele_number(counts) as u64, derived_count(counts) as u64);
    if copies.is_some_and(|copies| n > copies) {
        return too_many(function, copies.unwrap_or_default(), n, counts);
    }
    Ok((n, d))
}

#[cold]
fn too_many<T>(function: &str, copies: u64, n: u64, counts: &[i32]) -> Result<T> {
    exec_err!(
        "{function}: a site has {n} called copies, more than the {copies} of its population; its \
         allele counts are {counts:?}"
    )
}

/// d of a site if every copy is called (n = N), else `None`.
#[inline(always)]
pub(crate) fn complete(function: &str, copies: u64, counts: &[i32]) -> Result<Option<u64>> {
    let (n, d) = measure(function, Some(copies), counts)?;
    Ok((n == copies).then_some(d))
}

/// The number of copies `n` that the argument `argument` of `function` gives for a population: not negative, and at most the copies that the
/// population has, where these are `known`.
pub(crate) fn given_copies(
    function: &str,
    argument: &str,
    n: i64,
    known: Option<u64>,
) -> Result<u64> {
    let Ok(copies) = u64::try_from(n) else {
        return exec_err!(
            "{function}: {argument}, the population's number of copies, must not be negative, found {n}"
        );
    };
    match known.filter(|known| copies > *known) {
        Some(known) => exec_err!(
            "{function}: {argument} is {n}, but the population has {known} copies: no site could have all {argument} called. Leave it out, \
             or give at most {known}"
        ),
        None => Ok(copies),
    }
}

/// n and d of a site with at least m called copies, else `None`.
#[inline]
pub(crate) fn projectable(
    function: &str,
    copies: Option<u64>,
    m: u32,
    counts: &[i32],
) -> Result<Option<(u32, u32)>> {
    let (n, d) = measure(function, copies, counts)?;
    if n < u64::from(m) {
        return Ok(None);
    }
    match (u32::try_from(n), u32::try_from(d)) {
        (Ok(n), Ok(d)) => Ok(Some((n, d))),
        _ => exec_err!(
            "{function}: a site has {n} called copies, more than {}",
            u32::MAX
        ),
    }
}

/// The argument m of a projection: from 1 to `copies` where that is known, and below 2²⁶.
pub(crate) fn projection_size(
    function: &str,
    argument: &str,
    m: i64,
    copies: Option<u64>,
) -> Result<u32> {
    let most = copies.unwrap_or(u64::MAX).min((1 << 26) - 1);
    match u32::try_from(m) {
        Ok(size) if size >= 1 && u64::from(size) <= most => Ok(size),
        _ => Err(match copies {
            Some(copies) => exec_datafusion_err!(
                "{function}: {argument} must be from 1 to {most} (the population has {copies} \
                 copies), found {m}"
            ),
            None => {
                exec_datafusion_err!("{function}: {argument} must be from 1 to {most}, found {m}")
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_with_missing_calls_are_none() {
        assert_eq!(complete("sfs", 4, &[3, 1]).unwrap(), Some(1));
        assert_eq!(complete("sfs", 4, &[1, 2, 1]).unwrap(), Some(3));
        assert_eq!(complete("sfs", 4, &[3, 0]).unwrap(), None);
        assert_eq!(complete("sfs", 0, &[]).unwrap(), Some(0));
        let error = complete("sfs", 4, &[3, 2]).unwrap_err().to_string();
        assert!(
            error.contains("[3, 2]") && error.contains("5 called copies"),
            "{error}"
        );
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(projection_size("f", "m", 4, Some(4)).unwrap(), 4);
        assert_eq!(projection_size("f", "m", 5, None).unwrap(), 5);
        for (m, copies) in [(0, None), (-1, None), (5, Some(4)), (1 << 40, None)] {
            assert!(projection_size("f", "m", m, copies).is_err(), "{m}");
        }
        assert_eq!(projectable("f", None, 3, &[2, 1]).unwrap(), Some((3, 1)));
        assert_eq!(projectable("f", None, 4, &[2, 1]).unwrap(), None);
        assert!(projectable("f", Some(2), 2, &[2, 1]).is_err());
        assert!(projectable("f", None, 2, &[i32::MAX; 3]).is_err());
    }
}
