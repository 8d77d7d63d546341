//! 512-bit strips of bit-planes on the instruction sets of the host: portable, AVX2, AVX-512.
//!
//! The counting loops in [`rows`](super::rows) are written once against [`Lanes`] and compiled once per instruction set;
//! [`Level::run`] chooses the copy that the CPU supports. A value of `Avx2` or `Avx512` exists only after detection, which
//! makes the intrinsics here sound. Every method is `inline(always)`, so that it is inlined into the function that enables the
//! instruction set. For the same reason the loops avoid `array::map`, `bool::then`, `fold`, `all` and other functions that take
//! a closure with a strip: those are not always inlined, and outside that function every intrinsic is a call.
//!
//! * `strip`: the operations. `portable`, `avx2`, `avx512`: their implementations.
//! * `level`: the instruction sets of this CPU, and work that runs with the best of them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod level;
mod portable;
mod strip;

pub(crate) use level::{Job, Level};
pub(super) use strip::STRIP_COPIES;
pub(crate) use strip::{Lanes, STRIP};
