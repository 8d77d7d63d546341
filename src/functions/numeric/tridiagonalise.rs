//! Reduces a symmetric matrix to tridiagonal form by Householder's reflections, with several threads.
//!
//! Each pass over the rest of the matrix applies one reflection and multiplies by the next. Rows are divided into [`PARTS`] parts, and the sums
//! of a part are added to those of the parts before it, by each thread for some columns, so the bits do not depend on the number of threads. Passes are
//! short, so threads are started once and wait for each other at a [`SpinBarrier`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Builder};

use parking_lot::{Mutex, RwLock};

use super::spin_barrier::SpinBarrier;
use super::vectors::{add_times, dot};
use crate::counts::{CountError, Job, Lanes, Level, Workers};

/// Parts of the rows: row i is in part i modulo this.
const PARTS: usize = 16;
/// The least rows of a matrix for which several threads are used.
const FEWEST_ROWS: usize = 256;

/// A tridiagonal matrix, and the reflections that lead to it.
#[derive(Debug, Default)]
pub(super) struct Tridiagonal {
    pub(super) diagonal: Vec<f64>,
    /// Element `i` is beside elements `i` and `i + 1` of the diagonal.
    pub(super) beside: Vec<f64>,
    /// For each reflection 1 − factor · v vᵀ, the factor and v, whose components are the last ones.
    pub(super) reflections: Vec<(f64, Vec<f64>)>,
}

/// What a pass does, from row `column + 1` on.
#[derive(Debug, Default)]
struct Pass {
    column: usize,
    /// The update −v wᵀ − w vᵀ of the rows from `column` on that is not applied yet.
    v: Vec<f64>,
    w: Vec<f64>,
    /// What the updated rows are multiplied by.
    next: Vec<f64>,
    /// Whether there is none: threads end.
    has_ended: bool,
}

/// What a pass gives for one part.
#[derive(Debug)]
struct Passed {
    /// The next column of its rows.
    column: Vec<f64>,
    /// Its part of the product, from row `column + 1` of the pass on.
    product: Vec<f64>,
}

/// Numbers that threads write and read in turns, between which they wait for each other.
struct Numbers(Vec<AtomicU64>);

impl Numbers {
    fn new(len: usize) -> Self {
        Self((0..len).map(|_| AtomicU64::new(0)).collect())
    }

    fn set(&self, first: usize, numbers: &[f64]) {
        for (to, number) in self.0.iter().skip(first).zip(numbers) {
            to.store(number.to_bits(), Ordering::Relaxed);
        }
    }

    fn get(&self, range: Range<usize>) -> impl Iterator<Item = f64> + '_ {
        let numbers = self.0.get(range).unwrap_or_default().iter();
        numbers.map(|number| f64::from_bits(number.load(Ordering::Relaxed)))
    }
}

/// The products of a pass.
struct Products {
    n: usize,
    /// That of each part, one after the other.
    of_parts: Numbers,
    /// Their sum.
    sum: Numbers,
}

impl Products {
    fn new(n: usize) -> Self {
        Self {
            n,
            of_parts: Numbers::new(n.saturating_mul(PARTS)),
            sum: Numbers::new(n),
        }
    }

    /// Adds up the parts of the columns of one of `threads` threads, of `len` columns.
    fn add_up(&self, thread: usize, threads: usize, len: usize) {
        let range = len * thread / threads.max(1)..len * (thread + 1) / threads.max(1);
        let mut sum = vec![0.0; range.len()];
        for part in 0..PARTS {
            let at = part * self.n;
            let of_part = self.of_parts.get(at + range.start..at + range.end);
            for (sum, product) in sum.iter_mut().zip(of_part) {
                *sum += product;
            }
        }
        self.sum.set(range.start, &sum);
    }
}

/// Rows of a part: the number of each, and its elements up to the diagonal.
type Rows<'a> = Vec<(usize, &'a mut [f64])>;

/// Reduces a matrix of `n` rows, of which only the lower triangle is read; it is overwritten.
///
/// # Errors
/// [`CountError::Stopped`].
pub(super) fn tridiagonalise(
    matrix: &mut [f64],
    n: usize,
    workers: &Workers<'_>,
) -> Result<Tridiagonal, CountError> {
    let mut parts: Vec<Rows<'_>> = (0..PARTS).map(|_| vec![]).collect();
    let mut passed: Vec<Passed> = vec![];
    for (i, row) in matrix.chunks_mut(n.max(1)).enumerate().take(n) {
        parts[i % PARTS].push((i, row));
    }
    for rows in &parts {
        passed.push(Passed {
            column: rows.iter().map(|(_, row)| row[0]).collect(),
            product: vec![],
        });
    }
    let passed: Vec<_> = passed.into_iter().map(Mutex::new).collect();
    let products = Products::new(n);
    let (pass, barrier) = (RwLock::new(Pass::default()), SpinBarrier::new());
    let threads = match n >= FEWEST_ROWS {
        true => workers.threads().min(PARTS),
        false => 1,
    };
    // Parts of the first thread, which is the calling one, and of others.
    let mut parts: Vec<_> = parts.into_iter().enumerate().collect();
    let advance = |parts: &mut Vec<(usize, Rows<'_>)>| {
        let pass = pass.read();
        for (part, rows) in parts {
            let passed = &mut passed[*part].lock();
            let pass = &*pass;
            Level::detect().run(Advance { rows, pass, passed });
            products.of_parts.set(*part * n, &passed.product);
        }
    };
    let add_up = |thread: usize| {
        let len = pass.read().next.len();
        products.add_up(thread, barrier.threads(), len);
    };
    thread::scope(|scope| {
        let _guard = barrier.guard();
        let mut others = 0;
        for thread in 1..threads {
            let first = parts.len() - (PARTS / threads).min(parts.len() - 1);
            let of_thread = Mutex::new(Some(parts.split_off(first)));
            let shared = Arc::new(of_thread);
            let theirs = Arc::clone(&shared);
            let (pass, barrier, advance, add_up) = (&pass, &barrier, &advance, &add_up);
            let run = move || {
                let _guard = barrier.guard();
                let mut parts = theirs.lock().take().unwrap_or_default();
                while barrier.wait() && !pass.read().has_ended {
                    advance(&mut parts);
                    if !barrier.wait() {
                        break;
                    }
                    add_up(thread);
                    barrier.wait();
                }
            };
            let builder = Builder::new().name(format!("vcz-eigen-{thread}"));
            match builder.spawn_scoped(scope, run) {
                Ok(_) => others += 1,
                // Without more threads, this one does what is left.
                Err(_) => {
                    parts.extend(shared.lock().take().unwrap_or_default());
                    break;
                }
            }
        }
        barrier.set_threads(others + 1);
        let reduced = reduce(n, &pass, &passed, &products, workers, || {
            let advanced = barrier.wait() && {
                advance(&mut parts);
                barrier.wait()
            };
            advanced && {
                add_up(0);
                barrier.wait()
            }
        });
        pass.write().has_ended = true;
        barrier.wait();
        reduced
    })
}

/// Reduces the matrix, with `run_pass` for each pass, which returns `false` if that failed.
fn reduce(
    n: usize,
    pass: &RwLock<Pass>,
    passed: &[Mutex<Passed>],
    products: &Products,
    workers: &Workers<'_>,
    mut run_pass: impl FnMut() -> bool,
) -> Result<Tridiagonal, CountError> {
    let mut found = Tridiagonal::default();
    {
        let mut pass = pass.write();
        (pass.v, pass.w) = (vec![0.0; n], vec![0.0; n]);
    }
    for k in 0..n {
        workers.check()?;
        let (factor, beside) = {
            let mut pass = pass.write();
            let parts: Vec<_> = passed.iter().map(|passed| passed.lock()).collect();
            // Column k, updated.
            let column = (k..n).map(|i| {
                let (v, w) = (&pass.v, &pass.w);
                parts[i % PARTS].column[i / PARTS] - v[i - k] * w[0] - w[i - k] * v[0]
            });
            let column: Vec<f64> = column.collect();
            found.diagonal.push(column[0]);
            if k + 1 == n {
                break;
            }
            let (factor, beside, next) = reflection(&column[1..]);
            pass.column = k;
            pass.next = next;
            (factor, beside)
        };
        found.beside.push(beside);
        // Another thread panicked, as this one will when it joins it.
        if !run_pass() {
            return Err(CountError::Stopped);
        }
        let mut pass = pass.write();
        let mut product: Vec<f64> = products.sum.get(0..n - k - 1).collect();
        let next = std::mem::take(&mut pass.next);
        product.iter_mut().for_each(|x| *x *= factor);
        let half = factor / 2.0 * dot(&product, &next);
        add_times(&mut product, -half, &next);
        found.reflections.push((factor, next.clone()));
        (pass.v, pass.w) = (next, product);
    }
    Ok(found)
}

/// A pass over the rows of one part.
struct Advance<'a, 'b> {
    rows: &'a mut Rows<'b>,
    pass: &'a Pass,
    passed: &'a mut Passed,
}

impl Job for Advance<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        let Self { rows, pass, passed } = self;
        let Pass {
            column, v, w, next, ..
        } = pass;
        passed.product.clear();
        passed.product.resize(next.len(), 0.0);
        let product = passed.product.as_mut_slice();
        let first = column + 1;
        for (i, row) in rows.iter_mut().filter(|(i, _)| *i >= first) {
            let at = *i - first;
            let row = &mut row[first..=*i];
            add_times(row, -v[at + 1], &w[1..]);
            add_times(row, -w[at + 1], &v[1..]);
            product[at] += dot(row, &next[..=at]);
            add_times(&mut product[..at], next[at], row);
            passed.column[*i / PARTS] = row[0];
        }
    }
}

/// The reflection 1 − factor · v vᵀ that maps `x` to a multiple of the first unit vector: factor, that multiple, v.
fn reflection(x: &[f64]) -> (f64, f64, Vec<f64>) {
    let first = x.first().copied().unwrap_or(0.0);
    let others = x.get(1..).unwrap_or_default();
    if others.iter().all(|x| *x == 0.0) {
        return (0.0, first, vec![0.0; x.len()]);
    }
    let norm = dot(x, x).sqrt();
    let multiple = if first > 0.0 { -norm } else { norm };
    let mut v = x.to_vec();
    if let Some(v) = v.first_mut() {
        *v -= multiple;
    }
    let squares = dot(&v, &v);
    if squares == 0.0 {
        return (0.0, first, vec![0.0; x.len()]);
    }
    (2.0 / squares, multiple, v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_do_not_depend_on_threads() {
        let n = FEWEST_ROWS + 3;
        let cell = |at: usize| {
            let (i, j) = (at / n, at % n);
            ((i.max(j) * 31 + i.min(j) * 17) % 101) as f64 - 50.0
        };
        let matrix: Vec<f64> = (0..n * n).map(cell).collect();
        let bits = |threads: usize| {
            let mut copy = matrix.clone();
            let workers = Workers::new(threads, &|| false);
            let found = tridiagonalise(&mut copy, n, &workers).unwrap();
            let numbers = found.diagonal.iter().chain(&found.beside);
            let numbers = numbers.chain(found.reflections.iter().flat_map(|(_, v)| v));
            numbers.map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let alone = bits(1);
        for threads in [2, 3, 16, 40] {
            assert!(bits(threads) == alone, "{threads}");
        }
    }

    #[test]
    fn threads_end_when_stopped() {
        let n = FEWEST_ROWS;
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let stop = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 100;
        let mut matrix = vec![1.0; n * n];
        let stopped = tridiagonalise(&mut matrix, n, &Workers::new(4, &stop));
        assert!(matches!(stopped, Err(CountError::Stopped)));
    }
}
