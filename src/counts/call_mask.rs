//! [`CallMask`]: which calls the values of FORMAT fields let pass, and what becomes of the genotypes of the others. Used by the scan on
//! decoded rows and by `filter_calls` on columns, so that both mask alike; GPUs mask by the same [`CallRange`](super::CallRange)s.
//!
//! Invariant: a mask has one byte for each call, row-major, `0xFF` for one that passes every test so far and `0` for another.

use super::call_numbers::{Half, Number, Passing};
use super::call_test::CallTest;
use super::error::CountError;
use super::gathered::FILL_CODE;
use super::lanes::{Job, Lanes, Level};
use crate::store::ElementType;

/// Values of a FORMAT field of fixed width.
#[derive(Debug, Clone, Copy)]
pub struct CallValues<'a> {
    /// Native-endian elements, row-major.
    pub bytes: &'a [u8],
    /// Their type.
    pub element: ElementType,
    /// Values of one call.
    pub per_call: usize,
    /// Which of them is tested, counted from 0.
    pub at: usize,
    /// Whether VCZ's codes of missing and fill stand for no value.
    pub coded: bool,
}

/// Which calls pass.
#[derive(Debug)]
pub struct CallMask {
    bytes: Vec<u8>,
    level: Level,
}

impl Default for CallMask {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            level: Level::detect(),
        }
    }
}

impl CallMask {
    /// Lets `calls` calls pass; the allocation is reused.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if the mask does not fit in memory.
    pub fn reset(&mut self, calls: usize) -> Result<(), CountError> {
        self.bytes.clear();
        let too_large = |_| CountError::TooLarge(format!("the filters of {calls} calls"));
        self.bytes.try_reserve(calls).map_err(too_large)?;
        self.bytes.resize(calls, 0xFF);
        Ok(())
    }

    /// Keeps only calls for which `passes`, given their index.
    pub fn retain(&mut self, mut passes: impl FnMut(usize) -> bool) {
        for (at, byte) in self.bytes.iter_mut().enumerate() {
            if *byte != 0 && !passes(at) {
                *byte = 0;
            }
        }
    }

    /// Keeps only calls whose value passes `test`.
    ///
    /// # Errors
    /// [`CountError::Mismatch`] where there are not as many values as calls, or their type has no such test.
    pub fn retain_values(
        &mut self,
        values: CallValues<'_>,
        test: &CallTest,
    ) -> Result<(), CountError> {
        match values.element {
            ElementType::Bool => {
                let bytes: &[u8] = self.typed(&values)?;
                let flags = bytes.iter().skip(values.at).step_by(values.per_call);
                match test {
                    CallTest::Present => {}
                    CallTest::Flag(flag) => {
                        for (keep, byte) in self.bytes.iter_mut().zip(flags) {
                            *keep &= mask((*byte != 0) == *flag);
                        }
                    }
                    other => return Err(no_such_test(other, values.element)),
                }
                Ok(())
            }
            ElementType::Int8 => self.retain_numbers::<i8>(values, test),
            ElementType::Int16 => self.retain_numbers::<i16>(values, test),
            ElementType::Int32 => self.retain_numbers::<i32>(values, test),
            ElementType::Int64 => self.retain_numbers::<i64>(values, test),
            ElementType::UInt8 => self.retain_numbers::<u8>(values, test),
            ElementType::UInt16 => self.retain_numbers::<u16>(values, test),
            ElementType::UInt32 => self.retain_numbers::<u32>(values, test),
            ElementType::UInt64 => self.retain_numbers::<u64>(values, test),
            ElementType::Float16 => self.retain_numbers::<Half>(values, test),
            ElementType::Float32 => self.retain_numbers::<f32>(values, test),
            ElementType::Float64 => self.retain_numbers::<f64>(values, test),
            ElementType::Unicode(_)
            | ElementType::Bytes(_)
            | ElementType::Time(_)
            | ElementType::String => Err(no_such_test(test, values.element)),
        }
    }

    /// Writes `codes`, the genotypes of these calls, into `out`, with −1 for every existing copy (any code but −2) of a call that
    /// does not pass.
    ///
    /// # Errors
    /// [`CountError::Mismatch`] where there are not `ploidy` codes of each call, or they are not signed integers;
    /// [`CountError::TooLarge`] where the codes do not fit in memory once more.
    pub fn apply(
        &self,
        codes: &[u8],
        element: ElementType,
        ploidy: usize,
        out: &mut Vec<u64>,
    ) -> Result<(), CountError> {
        let words = codes.len().div_ceil(size_of::<u64>());
        if out.len() < words {
            let too_large = |_| CountError::TooLarge(format!("{} bytes of genotypes", codes.len()));
            out.try_reserve(words - out.len()).map_err(too_large)?;
            out.resize(words, 0);
        }
        match element {
            ElementType::Int8 => self.apply_to::<i8>(codes, ploidy, out),
            ElementType::Int16 => self.apply_to::<i16>(codes, ploidy, out),
            ElementType::Int32 => self.apply_to::<i32>(codes, ploidy, out),
            ElementType::Int64 => self.apply_to::<i64>(codes, ploidy, out),
            other => Err(CountError::Mismatch(format!(
                "genotype codes of type {other}: expected int8, int16, int32 or int64"
            ))),
        }
    }

    /// The values, of which each call must have as many as it says.
    fn typed<'a, T: bytemuck::Pod>(&self, values: &CallValues<'a>) -> Result<&'a [T], CountError> {
        let typed: &[T] = bytemuck::try_cast_slice(values.bytes)
            .map_err(|reason| CountError::Mismatch(format!("values of calls: {reason}")))?;
        let expected = self.bytes.len().checked_mul(values.per_call);
        if expected != Some(typed.len()) || values.at >= values.per_call {
            return Err(CountError::Mismatch(format!(
                "expected {} values of each of {} calls, value {} among them, found {}",
                values.per_call,
                self.bytes.len(),
                values.at,
                typed.len()
            )));
        }
        Ok(typed)
    }

    fn retain_numbers<T: Number>(
        &mut self,
        values: CallValues<'_>,
        test: &CallTest,
    ) -> Result<(), CountError> {
        let typed: &[T] = self.typed(&values)?;
        let range = match test {
            CallTest::Present if !values.coded => return Ok(()),
            CallTest::Present => None,
            _ => match T::passing(test).ok_or_else(|| no_such_test(test, values.element))? {
                Passing::Range(low, high) => Some((low, high)),
                Passing::Nothing => {
                    self.bytes.fill(0);
                    return Ok(());
                }
            },
        };
        self.level.run(Retain {
            values: typed,
            per_call: values.per_call,
            at: values.at,
            range,
            nulls: values.coded,
            keep: &mut self.bytes,
        });
        Ok(())
    }

    fn apply_to<T: Code>(
        &self,
        codes: &[u8],
        ploidy: usize,
        out: &mut [u64],
    ) -> Result<(), CountError> {
        let codes: &[T] = bytemuck::try_cast_slice(codes)
            .map_err(|reason| CountError::Mismatch(format!("genotype codes: {reason}")))?;
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        if self.bytes.len().checked_mul(ploidy) != Some(codes.len()) {
            return Err(CountError::Mismatch(format!(
                "expected {ploidy} codes of each of {} calls, found {}",
                self.bytes.len(),
                codes.len()
            )));
        }
        self.level.run(Apply {
            codes,
            ploidy,
            keep: &self.bytes,
            out,
        });
        Ok(())
    }
}

#[cold]
fn no_such_test(test: &CallTest, element: ElementType) -> CountError {
    CountError::Mismatch(format!("values of type {element} have no test {test:?}"))
}

#[inline(always)]
fn mask(passes: bool) -> u8 {
    0u8.wrapping_sub(u8::from(passes))
}

struct Retain<'a, T> {
    values: &'a [T],
    per_call: usize,
    at: usize,
    /// `None` for every value.
    range: Option<(T, T)>,
    /// Whether codes of missing and fill do not pass.
    nulls: bool,
    keep: &'a mut [u8],
}

impl<T: Number> Job for Retain<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        match self.range {
            None => retain(self.values, self.per_call, self.at, self.keep, |v| {
                !v.is_null()
            }),
            Some((low, high)) if self.nulls && T::has_nulls(low, high) => {
                retain(self.values, self.per_call, self.at, self.keep, |v| {
                    v.is_in(low, high) & !v.is_null()
                })
            }
            Some((low, high)) => retain(self.values, self.per_call, self.at, self.keep, |v| {
                v.is_in(low, high)
            }),
        }
    }
}

/// Clears the bytes of calls whose value does not pass: without branches, so that it becomes vector instructions.
#[inline(always)]
fn retain<T: Copy>(
    values: &[T],
    per_call: usize,
    at: usize,
    keep: &mut [u8],
    passes: impl Fn(T) -> bool,
) {
    if per_call == 1 {
        for (keep, value) in keep.iter_mut().zip(values) {
            *keep &= mask(passes(*value));
        }
        return;
    }
    for (keep, call) in keep.iter_mut().zip(values.chunks_exact(per_call)) {
        if let Some(value) = call.get(at) {
            *keep &= mask(passes(*value));
        }
    }
}

/// A type of genotype codes.
trait Code: bytemuck::Pod {
    /// The code, or −1 where `keep` is 0 and the code is not −2.
    fn masked(self, keep: u8) -> Self;
}

macro_rules! codes {
    ($($native:ty),*) => {$(impl Code for $native {
        #[inline(always)]
        fn masked(self, keep: u8) -> Self {
            let fails = <$native>::from(keep == 0);
            // All bits set are -1, whatever the code was.
            self | (fails & <$native>::from(self != FILL_CODE as $native)).wrapping_neg()
        }
    })*};
}
codes!(i8, i16, i32, i64);

struct Apply<'a, T> {
    codes: &'a [T],
    ploidy: usize,
    keep: &'a [u8],
    out: &'a mut [T],
}

impl<T: Code> Job for Apply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self {
            codes,
            ploidy,
            keep,
            out,
        } = self;
        match ploidy {
            1 => {
                for ((out, code), keep) in out.iter_mut().zip(codes).zip(keep) {
                    *out = code.masked(*keep);
                }
            }
            2 => {
                let (out, codes) = (out.as_chunks_mut::<2>().0, codes.as_chunks::<2>().0);
                for ((out, [first, second]), keep) in out.iter_mut().zip(codes).zip(keep) {
                    *out = [first.masked(*keep), second.masked(*keep)];
                }
            }
            0 => {}
            _ => {
                let (out, codes) = (out.chunks_exact_mut(ploidy), codes.chunks_exact(ploidy));
                for ((out, codes), keep) in out.zip(codes).zip(keep) {
                    for (out, code) in out.iter_mut().zip(codes) {
                        *out = code.masked(*keep);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "call_mask_tests.rs"]
mod tests;
