//! The progress bar of long scans, on standard error when that is a terminal.
//!
//! A thread looks at [`scan::progress`](crate::scan::progress) ten times a second and draws once a scan has run for a
//! second. The bar is cleared by the thread that ends the last scan, before any result of the query is printed.

use std::io::{IsTerminal, stderr};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use crate::scan::progress;

/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);
/// Scans that take less than this show no bar.
const DELAY: Duration = Duration::from_secs(1);

const TEMPLATE: &str =
    "{bar:40} {percent:>3}%  {human_pos} of {human_len} variants  {elapsed}, {eta} left";

/// The bar that is on the screen, if there is one.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Begins to watch the scans of this process; does nothing where standard error is not a terminal.
pub fn start() {
    if !stderr().is_terminal() || !progress::on_idle(clear) {
        return;
    }
    // Without the thread there is no bar, and nothing else is lost.
    let _ = thread::Builder::new()
        .name("vcz-progress".to_string())
        .spawn(watch);
}

fn watch() {
    let mut epoch = 0;
    let mut since = Instant::now();
    loop {
        thread::sleep(TICK);
        let now = progress::now();
        if now.epoch != epoch {
            (epoch, since) = (now.epoch, Instant::now());
        }
        if now.running > 0 && since.elapsed() >= DELAY {
            draw(since);
        }
    }
}

fn draw(since: Instant) {
    let mut bar = BAR.lock();
    // Asked again under the lock: `clear` may have run since, and what is drawn after it would stay.
    let now = progress::now();
    if now.running == 0 {
        return;
    }
    let bar = bar.get_or_insert_with(|| {
        let bar = ProgressBar::with_draw_target(Some(now.total), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.with_style(style).with_elapsed(since.elapsed())
    });
    bar.set_length(now.total);
    bar.set_position(now.done.min(now.total));
    bar.tick();
}

fn clear() {
    if let Some(bar) = BAR.lock().take() {
        bar.finish_and_clear();
    }
}
