//! VCZ's missing and fill values, by element type.
//!
//! Floats are compared by bit pattern: VCZ's missing and fill are signalling NaNs that arithmetic would quiet.

use half::f16;

/// What a scan leaves under the NULL that stands for the fill value of text, which is the empty string, as any NULL may have that under it.
pub const FILL_TEXT: &str = "\0";

/// A number that may be VCZ's missing or fill value. Unsigned numbers have none.
pub trait Codes: Copy {
    /// The missing value, if the type has one.
    const MISSING: Option<Self>;
    /// The fill value behind the last one of a list, if the type has one.
    const FILL: Option<Self>;

    /// Whether this is the missing value.
    fn is_missing(self) -> bool;
    /// Whether this is the fill value.
    fn is_fill(self) -> bool;
    /// Whether this is any NaN.
    fn is_not_a_number(self) -> bool;
}

macro_rules! signed_codes {
    ($($native:ty),*) => {$(impl Codes for $native {
        const MISSING: Option<Self> = Some(-1);
        const FILL: Option<Self> = Some(-2);
        fn is_missing(self) -> bool { self == -1 }
        fn is_fill(self) -> bool { self == -2 }
        fn is_not_a_number(self) -> bool { false }
    })*};
}
macro_rules! unsigned_codes {
    ($($native:ty),*) => {$(impl Codes for $native {
        const MISSING: Option<Self> = None;
        const FILL: Option<Self> = None;
        fn is_missing(self) -> bool { false }
        fn is_fill(self) -> bool { false }
        fn is_not_a_number(self) -> bool { false }
    })*};
}
macro_rules! float_codes {
    ($($native:ty => $missing:literal, $fill:literal);*) => {$(impl Codes for $native {
        const MISSING: Option<Self> = Some(<$native>::from_bits($missing));
        const FILL: Option<Self> = Some(<$native>::from_bits($fill));
        fn is_missing(self) -> bool { self.to_bits() == $missing }
        fn is_fill(self) -> bool { self.to_bits() == $fill }
        fn is_not_a_number(self) -> bool { self.is_nan() }
    })*};
}
signed_codes!(i8, i16, i32, i64);
unsigned_codes!(u8, u16, u32, u64);
float_codes!(f16 => 0x7C01, 0x7C02; f32 => 0x7F80_0001, 0x7F80_0002; f64 => 0x7FF0_0000_0000_0001, 0x7FF0_0000_0000_0002);
