//! [`CountWidth`]: how many bytes a count has that a device computed.

/// Bytes of a count in a device's results: most are small, and the results of hundreds of sets take longer to copy than to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountWidth {
    /// Counts below 2⁸.
    One,
    /// Counts below 2¹⁶.
    Two,
    /// Any counts.
    Four,
}

impl CountWidth {
    /// The fewest bytes that hold counts up to `most`.
    pub fn of(most: usize) -> Self {
        match most {
            0..=0xff => Self::One,
            0x100..=0xffff => Self::Two,
            _ => Self::Four,
        }
    }

    /// Bytes of a count.
    pub fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// Adds counts of this width to `sums`. `bytes` has as many, and starts at a multiple of their width.
    pub(super) fn add(self, bytes: &[u8], sums: &mut [i32]) -> Option<()> {
        match self {
            Self::One => {
                let counts = bytes.iter().map(|count| i32::from(*count));
                sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
            }
            Self::Two => {
                let counts = bytemuck::try_cast_slice::<_, u16>(bytes)
                    .ok()?
                    .iter()
                    .map(|count| i32::from(*count));
                sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
            }
            Self::Four => {
                let counts = bytemuck::try_cast_slice::<_, i32>(bytes).ok()?;
                sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_as_narrow_as_they_can_be() {
        assert_eq!(
            [0, 255, 256].map(CountWidth::of),
            [CountWidth::One, CountWidth::One, CountWidth::Two]
        );
        assert_eq!(
            [65_535, 65_536].map(CountWidth::of),
            [CountWidth::Two, CountWidth::Four]
        );
        let mut sums = [1, 2];
        CountWidth::One.add(&[3, 255], &mut sums).unwrap();
        assert_eq!(sums, [4, 257]);
    }
}
