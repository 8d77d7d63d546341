//! Reduces a symmetric matrix to tridiagonal form by Householder's reflections, with several threads.
//!
//! Each pass over the rest of the matrix applies one reflection and multiplies by the next. Rows of a large matrix are divided into [`PARTS`] parts, and the
//! sums of a part are added to those of the parts before it, by each thread for some columns, so the bits do not depend on the number of threads. Passes are
//! short, so threads are started once and wait for each other at a [`SpinBarrier`], twice a pass; what depends on all parts, such as the next
//! reflection, every thread computes for itself. Columns that are done stay in the vectors, as zeros, so that the lines of all of them match.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Builder};

use parking_lot::Mutex;

use super::lines::{LINE, Line, LowerTriangle, add_times, at, at_mut, dot, lines_of, total};
use super::spin_barrier::SpinBarrier;
use crate::counts::{CountError, Job, Lanes, Level, Workers};

/// Parts of the rows of a large matrix: row i is in part i modulo this.
const PARTS: usize = 16;
/// The least rows of a large matrix. Smaller ones are one part, and one thread's.
const FEWEST_ROWS: usize = 256;

/// Sums of squares that count as 0, where the largest element of the matrix is 1. The rounding errors of a matrix of low rank become smaller with each
/// pass, and the squares of the smallest doubles are not precise enough to divide by.
const NOTHING: f64 = 1e-200;

/// A tridiagonal matrix, and the reflections that lead to it.
#[derive(Debug, Default)]
pub(super) struct Tridiagonal {
    pub(super) diagonal: Vec<f64>,
    /// Element `i` is beside elements `i` and `i + 1` of the diagonal.
    pub(super) beside: Vec<f64>,
    /// For each reflection 1 − factor · v vᵀ, the factor and v; those of pass k have zeros up to component k.
    pub(super) reflections: Vec<(f64, Vec<Line>)>,
}

/// Numbers that threads write and read in turns, between which they wait for each other.
struct Numbers(Vec<AtomicU64>);

impl Numbers {
    fn new(len: usize) -> Self {
        Self((0..len).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline(always)]
    fn of(&self, range: Range<usize>) -> &[AtomicU64] {
        self.0.get(range).unwrap_or_default()
    }

    #[inline(always)]
    fn get(&self, range: Range<usize>) -> impl Iterator<Item = f64> + '_ {
        self.of(range).iter().map(get)
    }

    /// Sets lines from line `first` on.
    #[inline(always)]
    fn set_lines(&self, first: usize, lines: &[Line]) {
        let (to, _) = self
            .of(first * LINE..(first + lines.len()) * LINE)
            .as_chunks::<LINE>();
        for (to, line) in to.iter().zip(lines) {
            to.iter()
                .zip(line.0)
                .for_each(|(to, number)| set(to, number));
        }
    }

    /// Lines from line `first` on.
    #[inline(always)]
    fn lines(&self, first: usize, count: usize) -> impl Iterator<Item = Line> + '_ {
        let (lines, _) = self
            .of(first * LINE..(first + count) * LINE)
            .as_chunks::<LINE>();
        lines.iter().map(|numbers| {
            let mut line = Line::default();
            line.0
                .iter_mut()
                .zip(numbers)
                .for_each(|(to, number)| *to = get(number));
            line
        })
    }
}

#[inline(always)]
fn get(number: &AtomicU64) -> f64 {
    f64::from_bits(number.load(Ordering::Relaxed))
}

#[inline(always)]
fn set(to: &AtomicU64, number: f64) {
    to.store(number.to_bits(), Ordering::Relaxed);
}

/// What threads tell each other.
struct Shared {
    n: usize,
    /// Parts of the rows.
    parts: usize,
    /// The next column of the rows of each part, one part after the other: of the passes with even and with odd numbers, since a thread may begin
    /// a pass while others read the columns of the one before.
    columns: [Numbers; 2],
    /// The product of the rest of the matrix, of each part, one part after the other.
    of_parts: Numbers,
    /// The sum of these.
    product: Numbers,
    barrier: SpinBarrier,
    is_stopped: AtomicBool,
}

impl Shared {
    fn new(n: usize) -> Self {
        let parts = if n >= FEWEST_ROWS { PARTS } else { 1 };
        let columns = || Numbers::new(n.div_ceil(parts).saturating_mul(parts));
        let numbers = lines_of(n).saturating_mul(LINE);
        Self {
            n,
            parts,
            columns: [columns(), columns()],
            of_parts: Numbers::new(numbers.saturating_mul(parts)),
            product: Numbers::new(numbers),
            barrier: SpinBarrier::new(),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Where the columns of a part are.
    fn columns_of(&self, part: usize) -> Range<usize> {
        let most = self.n.div_ceil(self.parts);
        part * most..(part + 1) * most
    }

    /// Sets `column` to the column of pass `k` from row `k` on, and zeros.
    #[inline(always)]
    fn column(&self, k: usize, column: &mut [Line]) {
        column[..=k / LINE].fill(Line::default());
        for part in 0..self.parts {
            // The first row of the part that is at least k.
            let row = k + (part + self.parts - k % self.parts) % self.parts;
            let columns = self.columns_of(part);
            let of_part = self.columns[k % 2].get(columns.start + row / self.parts..columns.end);
            for (row, number) in (row..self.n).step_by(self.parts).zip(of_part) {
                *at_mut(column, row) = number;
            }
        }
    }

    /// Adds up the products of the parts, of the lines from `first` on of one of the threads.
    #[inline(always)]
    fn add_up<L: Lanes>(&self, lanes: L, thread: usize, first: usize, sums: &mut Vec<Line>) {
        let (threads, all) = (self.barrier.threads().max(1), lines_of(self.n));
        let begin = first + (all - first) * thread / threads;
        let end = first + (all - first) * (thread + 1) / threads;
        sums.clear();
        sums.resize(end - begin, Line::default());
        for part in 0..self.parts {
            let of_part = self.of_parts.lines(part * all + begin, end - begin);
            for (sum, line) in sums.iter_mut().zip(of_part) {
                sum.0 = lanes.each(lanes.plus(lanes.doubles(&sum.0), lanes.doubles(&line.0)));
            }
        }
        self.product.set_lines(begin, sums);
    }
}

/// Rows of a part: the number of each, and its elements up to the diagonal.
type Rows<'a> = Vec<(usize, &'a mut [Line])>;

/// Reduces a matrix, which is overwritten.
///
/// # Errors
/// [`CountError::Stopped`].
pub(super) fn tridiagonalise(
    matrix: &mut LowerTriangle,
    workers: &Workers<'_>,
) -> Result<Tridiagonal, CountError> {
    let n = matrix.n();
    let shared = Shared::new(n);
    let mut parts: Vec<(usize, Rows<'_>)> = (0..shared.parts).map(|part| (part, vec![])).collect();
    for (i, row) in matrix.rows_mut().enumerate() {
        parts[i % shared.parts].1.push((i, row));
    }
    for (part, rows) in &parts {
        let columns = shared.columns[0].of(shared.columns_of(*part));
        for (to, (_, row)) in columns.iter().zip(rows) {
            set(to, at(row, 0));
        }
    }
    let threads = workers.threads().min(shared.parts);
    let level = Level::detect();
    thread::scope(|scope| {
        let shared = &shared;
        let _guard = shared.barrier.guard();
        let mut others = 0;
        for thread in 1..threads {
            let of_thread = parts.split_off(shared.parts * (threads - thread) / threads);
            let of_thread = Arc::new(Mutex::new(Some(of_thread)));
            let theirs = Arc::clone(&of_thread);
            let run = move || {
                let _guard = shared.barrier.guard();
                let parts = theirs.lock().take().unwrap_or_default();
                // Whether it was stopped is known to the first thread.
                let _ = level.run(Reduce {
                    shared,
                    thread,
                    parts,
                    found: None,
                });
            };
            let builder = Builder::new().name(format!("vcz-eigen-{thread}"));
            match builder.spawn_scoped(scope, run) {
                Ok(_) => others += 1,
                // Without more threads, this one does what is left.
                Err(_) => {
                    parts.extend(of_thread.lock().take().unwrap_or_default());
                    break;
                }
            }
        }
        shared.barrier.set_threads(others + 1);
        let mut found = Tridiagonal::default();
        level.run(Reduce {
            shared,
            thread: 0,
            parts,
            found: Some((&mut found, workers)),
        })?;
        Ok(found)
    })
}

/// The work of one thread: passes over its parts of the rows.
struct Reduce<'a, 'b> {
    shared: &'a Shared,
    thread: usize,
    parts: Vec<(usize, Rows<'b>)>,
    /// Where the first thread puts what it finds, and what asks it to stop.
    found: Option<(&'a mut Tridiagonal, &'a Workers<'a>)>,
}

/// A vector of zeros.
fn zeros(n: usize) -> Vec<Line> {
    vec![Line::default(); lines_of(n)]
}

impl Job for Reduce<'_, '_> {
    type Output = Result<(), CountError>;

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) -> Result<(), CountError> {
        let (shared, n) = (self.shared, self.shared.n);
        // The update −v wᵀ − w vᵀ of the rows from k on that is not applied yet.
        let (mut v, mut w) = (zeros(n), zeros(n));
        let (mut next, mut product, mut sums) = (zeros(n), zeros(n), vec![]);
        for k in 0..n {
            if let Some((_, workers)) = &self.found
                && workers.check().is_err()
            {
                shared.is_stopped.store(true, Ordering::Relaxed);
            }
            // Column k, updated.
            shared.column(k, &mut next);
            let from = k / LINE;
            add_times(lanes, &mut next[from..], -at(&w, k), &v[from..]);
            add_times(lanes, &mut next[from..], -at(&v, k), &w[from..]);
            let diagonal = std::mem::take(at_mut(&mut next, k));
            if let Some((found, _)) = &mut self.found {
                found.diagonal.push(diagonal);
            }
            if k + 1 == n {
                break;
            }
            let (factor, beside) = reflection(lanes, &mut next, k + 1);
            if let Some((found, _)) = &mut self.found {
                found.beside.push(beside);
                found.reflections.push((factor, next.clone()));
            }
            self.pass(lanes, k + 1, [&v, &w, &next], &mut product);
            // Another thread panicked, as the first one will when it joins it.
            let goes_on = shared.barrier.wait();
            if !goes_on || shared.is_stopped.load(Ordering::Relaxed) {
                return Err(CountError::Stopped);
            }
            let from = (k + 1) / LINE;
            shared.add_up(lanes, self.thread, from, &mut sums);
            if !shared.barrier.wait() {
                return Err(CountError::Stopped);
            }
            w[..from].fill(Line::default());
            let (of_product, w) = (shared.product.lines(from, w.len() - from), &mut w[from..]);
            for (to, line) in w.iter_mut().zip(of_product) {
                let factors = lanes.doubles(&[factor; LINE]);
                let none = lanes.doubles(&[0.0; LINE]);
                to.0 = lanes.each(lanes.add_products(none, factors, lanes.doubles(&line.0)));
            }
            w[0].0[..(k + 1) % LINE].fill(0.0);
            let half = factor / 2.0 * dot(lanes, w, &next[from..]);
            add_times(lanes, w, -half, &next[from..]);
            std::mem::swap(&mut v, &mut next);
        }
        match shared.is_stopped.load(Ordering::Relaxed) {
            true => Err(CountError::Stopped),
            false => Ok(()),
        }
    }
}

impl Reduce<'_, '_> {
    /// Updates the rows from `first` on by −v wᵀ − w vᵀ, and multiplies them by `next`.
    #[inline(always)]
    fn pass<L: Lanes>(
        &mut self,
        lanes: L,
        first: usize,
        vectors: [&[Line]; 3],
        product: &mut [Line],
    ) {
        let (shared, line) = (self.shared, first / LINE);
        for (part, rows) in &mut self.parts {
            product[line..].fill(Line::default());
            let passed = rows.iter().take_while(|(i, _)| *i < first).count();
            let columns = shared.columns[first % 2].of(shared.columns_of(*part));
            for ((i, row), column) in rows.iter_mut().zip(columns).skip(passed) {
                update(lanes, *i, row, line, vectors, product);
                set(column, at(row, first));
            }
            let begin = *part * product.len() + line;
            shared.of_parts.set_lines(begin, &product[line..]);
        }
    }
}

/// Updates row `i` from line `first` on by −v wᵀ − w vᵀ, and adds its product with `next` to `product`.
#[inline(always)]
fn update<L: Lanes>(
    lanes: L,
    i: usize,
    row: &mut [Line],
    first: usize,
    [v, w, next]: [&[Line]; 3],
    product: &mut [Line],
) {
    let (of_v, of_w, of_next) = (-at(v, i), -at(w, i), at(next, i));
    let all_v = lanes.doubles(&[of_v; LINE]);
    let all_w = lanes.doubles(&[of_w; LINE]);
    let all_next = lanes.doubles(&[of_next; LINE]);
    let mut sums = lanes.doubles(&[0.0; LINE]);
    let (last, diagonal) = (i / LINE, i % LINE);
    let whole = first..last;
    let lines = row[whole.clone()]
        .iter_mut()
        .zip(&mut product[whole.clone()]);
    let vectors = v[whole.clone()].iter().zip(&w[whole.clone()]);
    for ((row, product), ((v, w), next)) in lines.zip(vectors.zip(&next[whole])) {
        let updated = lanes.add_products(lanes.doubles(&row.0), all_v, lanes.doubles(&w.0));
        let updated = lanes.add_products(updated, all_w, lanes.doubles(&v.0));
        row.0 = lanes.each(updated);
        sums = lanes.add_products(sums, updated, lanes.doubles(&next.0));
        product.0 = lanes.each(lanes.add_products(lanes.doubles(&product.0), all_next, updated));
    }
    let mut sum = total(lanes, sums);
    let (row, product) = (&mut row[last].0, &mut product[last].0);
    let (v, w, next) = (&v[last].0, &w[last].0, &next[last].0);
    for at in 0..=diagonal {
        row[at] = row[at] + of_v * w[at] + of_w * v[at];
        sum += row[at] * next[at];
        // The element of the diagonal is in the sum alone.
        if at < diagonal {
            product[at] += of_next * row[at];
        }
    }
    product[diagonal] += sum;
}

/// The reflection 1 − factor · v vᵀ that maps `x`, whose components begin at `first`, to a multiple of the unit vector of that component: factor
/// and multiple. `x` becomes v.
#[inline(always)]
fn reflection<L: Lanes>(lanes: L, x: &mut [Line], first: usize) -> (f64, f64) {
    let (of_first, from) = (at(x, first), first / LINE);
    *at_mut(x, first) = 0.0;
    let others = dot(lanes, &x[from..], &x[from..]);
    if others < NOTHING {
        x[from..].fill(Line::default());
        return (0.0, of_first);
    }
    let norm = (of_first * of_first + others).sqrt();
    let multiple = if of_first > 0.0 { -norm } else { norm };
    let component = of_first - multiple;
    *at_mut(x, first) = component;
    (2.0 / (component * component + others), multiple)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::numeric::lines::RowsSetter;

    fn triangle(n: usize, of: impl Fn(usize, usize) -> f64) -> LowerTriangle {
        let fill = |rows: Vec<RowsSetter<'_>>| {
            rows.into_iter().for_each(|rows| rows.set(&of));
            Ok(())
        };
        LowerTriangle::try_new(n, 5, fill).unwrap()
    }

    #[test]
    fn bits_do_not_depend_on_threads() {
        let n = FEWEST_ROWS + 3;
        let matrix = triangle(n, |i, j| ((i * 31 + j * 17) % 101) as f64 - 50.0);
        let bits = |threads: usize| {
            let mut copy = matrix.clone();
            let workers = Workers::new(threads, &|| false);
            let found = tridiagonalise(&mut copy, &workers).unwrap();
            let numbers = found.diagonal.iter().chain(&found.beside);
            let vectors = found.reflections.iter().flat_map(|(_, v)| v);
            let numbers = numbers.chain(vectors.flat_map(|line| &line.0));
            numbers.map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let alone = bits(1);
        for threads in [2, 3, 12, 16, 40] {
            assert!(bits(threads) == alone, "{threads}");
        }
    }

    #[test]
    fn threads_end_when_stopped() {
        let n = FEWEST_ROWS;
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let stop = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 100;
        let mut matrix = triangle(n, |_, _| 1.0);
        let stopped = tridiagonalise(&mut matrix, &Workers::new(4, &stop));
        assert!(matches!(stopped, Err(CountError::Stopped)));
    }
}
